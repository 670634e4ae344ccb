# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_training.openworld.evaluate import parse_rows
from newfound_training.openworld.options import EvaluateOpenWorldOptions, OpenWorldOptions
from newfound_training.openworld.options import TrainOpenWorldOptions as TrainOptions
from newfound_training.openworld.settings import make_setting, parse_values
from newfound_training.running.options import make_options, preset_names, read_preset


@pytest.mark.parametrize("preset", preset_names("evaluate-openworld"))
def test_every_preset_of_the_table_has_rows_that_can_be_run(preset):
    options = make_options(EvaluateOpenWorldOptions, read_preset("evaluate-openworld", preset))
    assert parse_rows(options.rows)


@pytest.mark.parametrize("preset", preset_names("train-openworld"))
def test_every_preset_of_training_can_be_run(preset):
    options = make_options(TrainOptions, read_preset("train-openworld", preset))
    assert make_setting("row", options.method, parse_values(options.set))


@pytest.mark.parametrize(
    "changes",
    [
        {"crops": -1},
        {"images_per_class": -1},
        {"test_split": (), "test_share": 0.0},
        {"train_split": ("a", "b"), "test_split": ("b",)},
        {"weights": "random", "frozen_stages": 2},
    ],
)
def test_options_that_make_no_sense_are_refused(changes):
    with pytest.raises(ConfigError):
        OpenWorldOptions(**changes)


@pytest.mark.parametrize("changes", [{"orders": 0}, {"seeds": 0}, {"rows": ()}])
def test_an_empty_table_is_refused(changes):
    with pytest.raises(ConfigError):
        EvaluateOpenWorldOptions(**changes)
