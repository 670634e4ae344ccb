# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_training.openworld.protocol import (
    choice_classes,
    make_protocol,
    reported_classes,
)

CLASSES = [f"class{i:02d}" for i in range(40)]


def make(**changes):
    values = {"known": 20, "initial": 8, "per_step": 4, "order": 0} | changes
    return make_protocol(CLASSES, **values)


def test_classes_come_in_steps_and_the_rest_stays_unknown():
    protocol = make()
    assert [len(step) for step in protocol.steps] == [8, 4, 4, 4]
    assert len(protocol.unknown) == 20
    assert sorted([*protocol.known, *protocol.unknown]) == CLASSES


def test_fewer_unknown_classes_can_be_asked_for():
    assert make(unknown=5).unknown == make().unknown[:5]


def test_the_last_step_takes_what_is_left():
    assert [len(step) for step in make(known=11, initial=4, per_step=3).steps] == [4, 3, 3, 1]


def test_without_numbers_everything_is_learned_at_once():
    protocol = make(known=0, initial=0)
    assert len(protocol.steps) == 1
    assert protocol.unknown == ()


def test_an_order_is_the_same_every_time_and_differs_from_the_next():
    assert make(order=1) == make(order=1)
    assert make(order=1) != make(order=2)


def test_joint_training_learns_the_same_classes():
    protocol = make()
    assert protocol.joint().steps == (protocol.known,)
    assert protocol.joint().unknown == protocol.unknown


def test_choices_are_never_made_on_classes_that_are_reported():
    chosen, reported = choice_classes(CLASSES, 15), reported_classes(CLASSES, 15)
    assert len(chosen) == 15
    assert sorted(chosen + reported) == CLASSES
    assert choice_classes(CLASSES, 15) == chosen


@pytest.mark.parametrize(
    "changes", [{"known": 41}, {"initial": 21}, {"per_step": 0}, {"unknown": 21}]
)
def test_impossible_numbers_are_refused(changes):
    with pytest.raises(ConfigError):
        make(**changes)


def test_more_choice_classes_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="41 choice classes"):
        choice_classes(CLASSES, 41)
