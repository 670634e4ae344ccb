# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from newfound_core.open_world.job import cancel, read_progress
from newfound_core.open_world.step_config import LearningCancelledError
from newfound_training.openworld.job_progress import STAGES, JobReporter


def lines(folder):
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def test_the_fraction_rises_over_the_stages_to_one(tmp_path):
    reporter = JobReporter(tmp_path)
    for stage in STAGES:
        reporter.report(stage)
        reporter.report(stage, 5, 5)
    fractions = [line["fraction"] for line in lines(tmp_path)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)
    assert read_progress(tmp_path).stage == "saving"


def test_batches_in_quick_succession_make_few_lines(tmp_path):
    reporter = JobReporter(tmp_path)
    for done in range(5000):
        reporter.report("training", done, 100_000)
    assert len(lines(tmp_path)) < 2500


def test_the_time_left_is_estimated_from_the_pace_of_this_process(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("newfound_training.openworld.job_progress.time.monotonic", lambda: now[0])
    reporter = JobReporter(tmp_path)
    reporter.report("training", 0, 10)  # half of the job was done before a crash
    assert read_progress(tmp_path).seconds_left is None
    now[0] += 35
    reporter.report("training", 10, 10)  # 0.35 of the job in 35 s, 0.15 to go
    assert read_progress(tmp_path).seconds_left == pytest.approx(15, abs=0.2)


def test_a_cancelled_job_stops_at_the_next_report(tmp_path):
    reporter = JobReporter(tmp_path)
    reporter.report("training", 1, 9)
    cancel(tmp_path)
    with pytest.raises(LearningCancelledError):
        reporter.report("training", 2, 9)
