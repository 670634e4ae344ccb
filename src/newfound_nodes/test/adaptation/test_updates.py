# SPDX-License-Identifier: Apache-2.0
"""The thread beside the frames, without ROS."""

import math
import os
import threading

import pytest
import torch
from torch import nn

from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.estimators import BatchEstimator
from newfound_nodes.adaptation.state import AdaptationStore
from newfound_nodes.adaptation.updates import NICENESS, Adaptation
from newfound_runtime.testing import eventually


@pytest.fixture
def make(tmp_path):
    """An adaptation around a small network, and the errors it reported."""
    made, errors = [], []

    def build(**options):
        torch.manual_seed(0)
        layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        config = OndaConfig.thesis(**{"frames_per_update": 2, "momentum": 0.5} | options)
        onda = Onda(nn.Sequential(*layers).eval(), config, inline=False)
        store = AdaptationStore(tmp_path, "/node", "ab" * 32)
        made.append(Adaptation(onda, store, lambda: 7.0, lambda: errors.append("failed")))
        return made[-1]

    build.errors = errors
    yield build
    for adaptation in made:
        adaptation.close(10.0)


def look(adaptation, *entropies):
    """One frame for each entropy."""
    for entropy in entropies:
        adaptation(torch.randn(1, 3, 8, 8))
        adaptation.count_frame(entropy)


def updated(adaptation, count):
    return eventually(lambda: adaptation.report().updates == count and adaptation.report())


def test_an_update_tells_the_mean_entropy_of_its_frames_and_its_time(make):
    adaptation = make()
    assert math.isnan(adaptation.report().entropy)
    look(adaptation, 0.2, 0.4)
    report = updated(adaptation, 1)
    assert report.entropy == pytest.approx(0.3)
    assert (report.frames, report.skipped, report.last_update) == (2, 0, 7.0)
    look(adaptation, 0.6, 0.8)
    assert updated(adaptation, 2).entropy == pytest.approx(0.7)


def test_an_update_is_under_way_until_the_report_tells_of_it(make, monkeypatch):
    adaptation = make()
    applied, told = threading.Event(), threading.Event()
    status = adaptation.onda.status

    def slow_status():
        if threading.current_thread().name == "adaptation":
            applied.set()
            told.wait(10.0)
        return status()

    monkeypatch.setattr(adaptation.onda, "status", slow_status)
    look(adaptation, 0.2, 0.4)
    assert applied.wait(10.0)
    assert (adaptation.updating, adaptation.report().updates) == (True, 0)
    told.set()
    assert eventually(lambda: not adaptation.updating)
    assert adaptation.report().updates == 1


def test_frames_that_are_not_used_count_as_skipped_and_not_for_the_entropy(make):
    adaptation = make()
    look(adaptation, 0.2)
    adaptation(torch.full((1, 3, 8, 8), math.nan))
    adaptation.count_frame(0.9)
    look(adaptation, 0.4)
    report = updated(adaptation, 1)
    assert (report.frames, report.skipped) == (3, 1)
    assert report.entropy == pytest.approx(0.3)


def test_an_update_under_way_at_a_reset_is_not_applied(make, monkeypatch):
    go_on, estimate = threading.Event(), BatchEstimator.estimate
    held = lambda *arguments: go_on.wait(60) and estimate(*arguments)  # noqa: E731
    monkeypatch.setattr(BatchEstimator, "estimate", held)
    adaptation = make()
    look(adaptation, 0.1, 0.1)
    adaptation.reset()
    go_on.set()
    assert adaptation.close(10.0)
    report = adaptation.report()
    assert (report.updates, report.reset_reason, report.last_reset) == (0, "requested", 7.0)
    assert adaptation.onda.drift().maximum == 0


def test_an_estimate_that_fails_is_reported_and_the_next_one_counts(make, monkeypatch):
    estimate = BatchEstimator.estimate

    def fail(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(BatchEstimator, "estimate", fail)
    adaptation = make()
    look(adaptation, 0.1, 0.1)
    eventually(lambda: make.errors == ["failed"])
    monkeypatch.setattr(BatchEstimator, "estimate", estimate)
    eventually(lambda: not adaptation._estimating)
    assert (adaptation.report().updates_failed, adaptation.report().failing) == (1, True)
    look(adaptation, 0.1, 0.1)
    report = updated(adaptation, 1)
    assert (report.updates_failed, report.failing) == (1, False)


def test_closing_finishes_what_was_asked_for_before(make):
    adaptation, done = make(), []
    for number in range(5):
        adaptation.submit(lambda number=number: done.append(number))
    assert adaptation.close(10.0)
    assert done == [0, 1, 2, 3, 4]
    assert not any(thread.name == "adaptation" for thread in threading.enumerate())


def test_a_task_that_does_not_end_is_told(make):
    adaptation, go_on = make(), threading.Event()
    adaptation.submit(lambda: go_on.wait(60))
    assert not adaptation.close(0.05)
    go_on.set()
    assert adaptation.close(10.0)


def test_the_thread_steps_back_where_cores_are_few(make):
    adaptation, seen = make(), []
    ask = lambda: seen.append(os.getpriority(os.PRIO_PROCESS, 0))  # noqa: E731
    base = os.getpriority(os.PRIO_PROCESS, os.getpid())
    adaptation.submit(ask)
    eventually(lambda: seen)
    assert seen == [min(19, base + NICENESS)]


def test_updates_are_computed_without_a_team_and_the_frames_keep_theirs(make):
    usual, counts = torch.get_num_threads(), []
    torch.set_num_threads(3)
    try:
        adaptation = make()
        adaptation.submit(lambda: counts.append(torch.get_num_threads()))
        eventually(lambda: counts)
        frames = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
        frames.start()
        frames.join()
        assert [*counts, torch.get_num_threads()] == [1, 3, 3]
    finally:
        torch.set_num_threads(usual)
