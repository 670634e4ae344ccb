# SPDX-License-Identifier: Apache-2.0
from newfound_core.open_world.job import LearningOptions
from newfound_training.openworld.learning import step_config
from newfound_training.openworld.settings import CHOSEN


def test_a_job_overrides_what_was_chosen_for_the_method():
    config = step_config("bdoc", LearningOptions(epochs=3, batch_size=9, seed=4))
    assert (config.epochs, config.batch_size, config.seed) == (3, 9, 4)
    assert config.learning_rate == CHOSEN["bdoc"]["learning_rate"]
    assert step_config("bdoc", LearningOptions(learning_rate=0.5)).learning_rate == 0.5
