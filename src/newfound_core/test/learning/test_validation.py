# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.learning.job import ClassAccuracy, JobState, LearningOptions
from newfound_core.learning.validation import average_loss, validate

FIFTEEN = {f"thing {number}": ClassAccuracy(5, 1.0, 1.0) for number in range(15)}
NEW = ClassAccuracy(5, None, 0.8)


def judge(options=None, **accuracy):
    return validate(FIFTEEN | accuracy, options or LearningOptions())


def test_the_average_loss_is_that_of_classes_known_before():
    accuracy = {
        "cup": ClassAccuracy(5, 0.8, 0.6),
        "pen": ClassAccuracy(5, 0.4, 0.4),
        "new": ClassAccuracy(5, None, 0.1),
    }
    assert average_loss(accuracy) == pytest.approx(0.1)
    assert average_loss({"new": accuracy["new"]}) == 0


def test_an_average_loss_beyond_the_threshold_names_the_classes_that_lost_most():
    accuracy = {k: ClassAccuracy(5, 1.0, 0.8) for k in FIFTEEN} | {"mug": ClassAccuracy(5, 1, 0.4)}
    _, reason, message = validate(accuracy | {"cup": NEW}, LearningOptions(max_accuracy_loss=0.2))
    assert reason == "forgot_too_much"
    assert "lost 22.5 points of accuracy on average, more than the 20.0 allowed" in message
    assert "most of all 'mug' (100 to 40 %), 'thing 0' (100 to 80 %)" in message


@pytest.mark.parametrize(("lost", "reason"), [(1, ""), (2, ""), (3, "forgot_too_much")])
def test_an_image_or_two_of_a_few_classes_do_not_keep_the_next_from_being_learned(lost, reason):
    losing = {f"fruit {n}": ClassAccuracy(3, 1.0, 2 / 3) for n in range(lost)}
    kept = {f"milk {n}": ClassAccuracy(3, 1.0, 1.0) for n in range(3 - lost)}
    assert validate(losing | kept | {"new": NEW}, LearningOptions())[1] == reason


def test_one_class_of_sixteen_that_is_gone_is_enough():
    _, reason, message = judge(mug=ClassAccuracy(5, 1.0, 0.0), cup=NEW)
    assert reason == "forgot_too_much"
    assert "'mug' (100 to 0 %)" in message
    assert "thing" not in message


@pytest.mark.parametrize(
    ("mug", "reason"),
    [
        (ClassAccuracy(3, 1.0, 1 / 3), "forgot_too_much"),
        (ClassAccuracy(4, 1.0, 0.5), ""),  # half, not more
        (ClassAccuracy(2, 1.0, 0.0), ""),  # two say nothing
        (ClassAccuracy(5, 0.4, 0.0), ""),  # nor do two that were recognised of five
        (ClassAccuracy(5, 0.6, 0.2), "forgot_too_much"),
        (ClassAccuracy(5, 0.0, 0.0), ""),  # there was nothing to lose
        (ClassAccuracy(5, 0.4, 1.0), ""),
    ],
)
def test_a_class_may_lose_half_of_what_is_recognised_of_it(mug, reason):
    assert judge(mug=mug, cup=NEW)[1] == reason


def test_a_new_class_that_is_not_recognised_itself_is_of_no_use():
    _, reason, message = judge(cup=ClassAccuracy(3, None, 0.0))
    assert reason == "not_recognised"
    assert "none of 3 images of 'cup'" in message


def test_of_too_few_images_that_is_only_said():
    _, reason, message = judge(cup=ClassAccuracy(1, None, 0.0))
    assert reason == ""
    assert "none of 1 images of 'cup'" in message
    assert judge(cup=NEW) == (JobState.DONE, "", "")


def test_everything_can_be_allowed():
    options = LearningOptions(max_accuracy_loss=1, max_class_loss=1)
    gone = {"mug": ClassAccuracy(5, 1.0, 0.0), "cup": ClassAccuracy(5, None, 0.0)}
    assert judge(options, **gone) == (JobState.DONE, "", "")
