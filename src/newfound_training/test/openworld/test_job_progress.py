# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from newfound_core.open_world.job import cancel, read_progress
from newfound_core.open_world.step_config import LearningCancelledError
from newfound_training.openworld.job_progress import STAGES, JobReporter


def lines(folder):
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("trains", [True, False])
def test_the_fraction_rises_over_the_stages_to_one(tmp_path, trains):
    reporter = JobReporter(tmp_path, trains=trains)
    for stage in STAGES if trains else [s for s in STAGES if s != "training"]:
        reporter.report(stage)
        reporter.report(stage, 5, 5)
    fractions = [line["fraction"] for line in lines(tmp_path)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)
    assert read_progress(tmp_path).stage == "saving"


def test_a_job_that_does_not_train_is_mostly_features(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("newfound_training.openworld.job_progress.time.monotonic", lambda: now[0])
    reporter = JobReporter(tmp_path, trains=False)
    reporter.report("loading")
    now[0] += 50
    reporter.report("features", 9, 9)  # 0.5 of 0.65 in 50 s
    found = read_progress(tmp_path)
    assert found.fraction == pytest.approx(0.5 / 0.65, abs=1e-3)
    assert found.seconds_left == pytest.approx(15, abs=0.2)
    reporter.report("means")
    assert read_progress(tmp_path).fraction == found.fraction, "no leap over a stage that is none"


def test_batches_in_quick_succession_make_few_lines(tmp_path):
    reporter = JobReporter(tmp_path, trains=True)
    for done in range(5000):
        reporter.report("training", done, 100_000)
    assert len(lines(tmp_path)) < 2500


def test_the_time_left_is_estimated_from_the_pace_of_this_process(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("newfound_training.openworld.job_progress.time.monotonic", lambda: now[0])
    reporter = JobReporter(tmp_path, trains=True)
    reporter.report("training", 0, 10)  # half of the job was done before a crash
    assert read_progress(tmp_path).seconds_left is None
    now[0] += 35
    reporter.report("training", 10, 10)  # 0.35 of the job in 35 s, 0.15 to go
    assert read_progress(tmp_path).seconds_left == pytest.approx(15, abs=0.2)


def test_a_cancelled_job_stops_at_the_next_report(tmp_path):
    reporter = JobReporter(tmp_path, trains=True)
    reporter.report("training", 1, 9)
    cancel(tmp_path)
    with pytest.raises(LearningCancelledError):
        reporter.report("training", 2, 9)
