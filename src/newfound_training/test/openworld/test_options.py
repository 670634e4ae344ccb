# SPDX-License-Identifier: Apache-2.0

import pytest

from newfound_core.errors import ConfigError
from newfound_training.openworld.evaluate import parse_rows
from newfound_training.openworld.options import (
    CHOSEN,
    EvaluateOpenWorldOptions,
    OpenWorldOptions,
    make_setting,
    parse_row,
    parse_values,
)
from newfound_training.openworld.options import TrainOpenWorldOptions as TrainOptions
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


def test_a_row_may_be_a_method_alone():
    setting = parse_row("bdoc")
    assert (setting.name, setting.method, setting.joint) == ("bdoc", "bdoc", False)


def test_options_find_their_place_by_name():
    setting = parse_row(
        "mine: method=bdoc local_weight=0 learning_rate=0.5 decay_at=[0.5,0.8] scale=3 "
        "held_out_share=0.3 joint=true epochs=9 later_epochs=4 weight_decay=1e-4"
    )
    assert setting.head["local_weight"] == 0
    first, later = setting.step_config(0, seed=7), setting.step_config(2, seed=7)
    assert (first.learning_rate, first.decay_at, first.seed) == (0.5, (0.5, 0.8), 7)
    assert (first.epochs, later.epochs) == (9, 4)
    assert first.weight_decay == 0.0001
    assert setting.embedding.scale == 3
    assert setting.memory_config(10).held_out_share == 0.3
    assert setting.joint


def test_an_option_of_training_may_hold_for_later_steps_only():
    setting = parse_row("a: method=bdoc learning_rate=0.1 later_learning_rate=0.01")
    rates = [setting.step_config(step, seed=0).learning_rate for step in range(3)]
    assert rates == [0.1, 0.01, 0.01]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a: method=bdoc percentile=3", "bdoc has no option percentile"),
        ("a: learning_rate=3", "names no method"),
        ("a: method=svm", "no method is named 'svm'"),
        ("svm", "no method is named 'svm'"),
        ("a: method=bdoc local_weight", "written name=value"),
        ("../a: method=bdoc", "named by letters"),
        ("..: method=bdoc", "named by letters"),
        (".: method=bdoc", "named by letters"),
        ("a: method=bdoc learning_rate=fast", "learning_rate"),
        ("a: method=bdoc local_weight=-1", "local_weight"),
        ("a: method=bdoc later_epochs=-1", "epochs"),
        ("a: method=bdoc later_local_weight=1", "no option later_local_weight"),
        ("a: method=bdoc local_weight=[", "is not YAML"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(row, message):
    with pytest.raises(ConfigError, match=message):
        parse_row(row)


@pytest.mark.parametrize("method", CHOSEN)
def test_what_was_chosen_for_a_method_are_options_it_has(method):
    assert make_setting(method, method, {}).method == method
