# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_training.places.evaluation_options import EvaluationOptions


def test_the_baseline_cannot_be_left_out():
    with pytest.raises(ConfigError, match="must include bn"):
        EvaluationOptions(methods=("wbn",))
    with pytest.raises(ConfigError, match="seeds"):
        EvaluationOptions(seeds=0)


def test_trainings_follow_the_preset_and_what_is_given_here():
    options = EvaluationOptions(data="d", seed=3, domain_part="last", iterations=7).training()
    assert (options.data, options.seed, options.domain_part) == ("d", 3, "last")
    assert (options.iterations, options.frozen_stages) == (7, 7)
