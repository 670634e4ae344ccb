# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_core.onda import OndaConfig


def test_the_defaults_are_for_video_and_those_of_the_thesis_are_one_call_away():
    config, thesis = OndaConfig(), OndaConfig.thesis(momentum=0.2)
    assert (config.frames_per_update, config.momentum, config.estimator) == (10, 0.1, "batch")
    assert (config.layers, config.balanced, config.alarm) == ("auto", True, True)
    assert (thesis.layers, thesis.balanced, thesis.alarm) == ("all", False, False)
    assert thesis.momentum == 0.2


def test_streaming_cannot_draw_from_a_memory_and_the_reason_is_given():
    with pytest.raises(ConfigError, match="balanced needs the estimator batch: streaming measure"):
        OndaConfig(estimator="streaming")
    assert OndaConfig(estimator="streaming", balanced=False).alarm


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
        ("alarm_agreement", 1.0),
        ("alarm_hold", 0),
        ("redundancy_threshold", -0.1),
    ],
)
def test_a_senseless_option_is_named(option, value):
    with pytest.raises(ConfigError, match=option):
        OndaConfig(**{option: value})
