# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_core.onda import OndaConfig


def test_the_defaults_are_those_of_the_thesis_with_all_guards_off():
    config = OndaConfig()
    assert (config.frames_per_update, config.momentum) == (10, 0.1)
    guards = (config.balanced, config.anchor, config.skip_redundant)
    assert guards == (False, False, False)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("frames_per_update", 1),
        ("momentum", 0.0),
        ("momentum", 1.5),
        ("momentum", float("nan")),
        ("estimator", "magic"),
        ("layers", "first:3"),
        ("layers", "last:0"),
        ("layers", "4"),
        ("positions_per_frame", 0),
        ("memory_size", 1),
        ("anchor_online_share", 0.0),
        ("anchor_max_drift", -1.0),
        ("anchor_entropy_band", (0.5, 0.1)),
        ("redundancy_threshold", -0.1),
    ],
)
def test_a_senseless_option_is_named(option, value):
    with pytest.raises(ConfigError, match=option):
        OndaConfig(**{option: value})
