# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_training.openworld.settings import CHOSEN, make_setting, parse_row


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
