# SPDX-License-Identifier: Apache-2.0

import pytest

from newfound_core.errors import ConfigError
from newfound_training.places.options import EvaluationOptions, PlacesOptions


@pytest.mark.parametrize(
    "wrong",
    [
        {"crop_area": (0.5,)},
        {"frozen_stages": -1},
        {"branch_lr": -0.1},
        {"remembered_variants": -1},
        {"assignment_smoothing": 1.5},
        {"assignment_temperature": 0.0},
        {"batch_size": 0},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        PlacesOptions(**wrong)


def test_random_layers_are_not_remembered():
    with pytest.raises(ConfigError, match="nothing worth remembering"):
        PlacesOptions(weights="random")
    PlacesOptions(weights="random", remembered_variants=0)


def test_a_domain_cannot_be_source_and_target():
    with pytest.raises(ConfigError, match="loft cannot be source and target"):
        PlacesOptions(source_domains=("loft", "villa"), target_domains=("loft",))


def test_the_baseline_cannot_be_left_out():
    with pytest.raises(ConfigError, match="must include bn"):
        EvaluationOptions(methods=("wbn",))
    with pytest.raises(ConfigError, match="seeds"):
        EvaluationOptions(seeds=0)


def test_trainings_follow_the_preset_and_what_is_given_here():
    options = EvaluationOptions(data="d", seed=3, domain_part="last", iterations=7).training()
    assert (options.data, options.seed, options.domain_part) == ("d", 3, "last")
    assert (options.iterations, options.frozen_stages) == (7, 7)
