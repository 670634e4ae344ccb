# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import DamagedError, StorageError
from newfound_core.open_world.job import ClassAccuracy, JobProgress, JobResult, outcomes
from newfound_nodes.open_world.job_status import FINAL, accuracies, ended, failed, following


def test_stages_of_the_learning_process_are_those_that_others_know():
    assert following("1", "mug", None).stage == "preparing"
    stages = ["loading", "features", "training", "means", "thresholds", "checking", "saving"]
    seen = [following("1", "mug", JobProgress(stage, 1.0, 3.0)).stage for stage in stages]
    assert seen == ["preparing"] * 2 + ["training"] + ["calibrating"] * 2 + ["validating"] * 2
    assert following("1", "mug", JobProgress("saving", 1.0, 0.0)).progress < 1, "not yet in use"


@pytest.mark.parametrize("outcome", [o for o in outcomes() if o != "learned"])
def test_every_outcome_is_final_and_says_why(outcome):
    status = ended("1", "mug", JobResult(outcome))
    assert status.stage in FINAL
    assert status.message == outcome


def test_a_full_disk_is_told_apart_from_other_failures():
    assert ended("1", "mug", JobResult("disk_full")).storage
    assert failed("1", "mug", StorageError("no room")).storage
    assert not failed("1", "mug", DamagedError("cannot be read")).storage
    assert failed("1", "mug", OSError("strange")).message == "internal error: strange"


def test_accuracy_is_over_the_samples_of_the_old_classes():
    accuracy = {
        "mug": ClassAccuracy(10, 1.0, 0.5),
        "cup": ClassAccuracy(30, 0.5, 0.5),
        "new": ClassAccuracy(9, None, 1.0),
    }
    assert accuracies(JobResult("learned", accuracy=accuracy)) == (0.625, 0.5)
    assert accuracies(JobResult("learned")) == (None, None)
