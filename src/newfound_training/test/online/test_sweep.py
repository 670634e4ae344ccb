# SPDX-License-Identifier: Apache-2.0
from newfound_training.online.options import OnlineOptions
from newfound_training.online.sweep import summary, sweep_streams


def test_one_option_varies_while_the_other_keeps_its_value(target):
    options = OnlineOptions(
        frames_per_update=5, sweep_momentum=(0.1, 0.5), sweep_frames=(4, 5), sweep_orders=2
    )
    streams = sweep_streams(target, options)
    assert list(streams["momentum"]) == [0.1, 0.5]
    assert list(streams["frames_per_update"]) == [4, 5]
    assert all(len(runs) == 2 for values in streams.values() for runs in values.values())
    same = zip(streams["momentum"][0.1], streams["frames_per_update"][5], strict=True)
    assert all((a == b).all() for a, b in same)
    assert set(summary(streams)["momentum"]) == {"0.1", "0.5"}
