# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_core.open_world.step_config import (
    Hooks,
    LearningCancelledError,
    Progress,
    StepConfig,
)


def test_the_rate_falls_to_a_tenth_at_each_share_of_the_epochs():
    config = StepConfig(epochs=10, learning_rate=1.0, decay_at=(0.5, 0.9))
    rates = [config.rate(epoch) for epoch in range(10)]
    assert rates == pytest.approx([1.0] * 5 + [0.1] * 4 + [0.01])


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": -1},
        {"batch_size": 1},
        {"learning_rate": float("nan")},
        {"decay_at": (1.5,)},
        {"clip_gradient": 0},
        {"memory_share": 1.0},
        {"precision": "float16"},
    ],
)
def test_senseless_options_are_refused(options):
    with pytest.raises(ConfigError):
        StepConfig(**options)


def test_a_report_stops_the_step_when_asked_to():
    seen = []
    hooks = Hooks(on_progress=seen.append, should_stop=lambda: len(seen) == 2)
    progress = Progress("training", 1, 9, {})
    hooks.report(progress)
    hooks.report(progress)
    with pytest.raises(LearningCancelledError, match="stopped in training"):
        hooks.report(progress)
