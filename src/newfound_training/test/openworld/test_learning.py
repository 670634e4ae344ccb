# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.open_world.job import ClassAccuracy, LearningOptions
from newfound_training.openworld.learning import LearnedClass, step_config
from newfound_training.openworld.settings import CHOSEN


def test_the_loss_of_accuracy_is_that_of_classes_known_before():
    accuracy = {
        "cup": ClassAccuracy(5, 0.8, 0.6),
        "pen": ClassAccuracy(5, 0.4, 0.4),
        "new": ClassAccuracy(5, None, 0.1),
    }
    assert LearnedClass(None, None, accuracy).accuracy_loss() == pytest.approx(0.1)
    assert LearnedClass(None, None, {"new": accuracy["new"]}).accuracy_loss() == 0


def test_a_job_overrides_what_was_chosen_for_the_method():
    config = step_config("bdoc", LearningOptions(epochs=3, batch_size=9, seed=4))
    assert (config.epochs, config.batch_size, config.seed) == (3, 9, 4)
    assert config.learning_rate == CHOSEN["bdoc"]["learning_rate"]
    assert step_config("bdoc", LearningOptions(learning_rate=0.5)).learning_rate == 0.5
