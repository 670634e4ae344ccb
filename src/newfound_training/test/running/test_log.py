# SPDX-License-Identifier: Apache-2.0
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from newfound_training.running.distributed import Team
from newfound_training.running.log import TrainingLog
from newfound_training.running.run import Run


def test_values_after_the_last_state_are_replaced_when_resuming(tmp_path):
    run = Run("test", tmp_path, torch.device("cpu"), 0, "")
    for first, value in ((0, 1.0), (2, 5.0)):
        with TrainingLog(run, first) as log:
            for step in range(first, 4):
                log.scalars("train", {"loss": value}, step)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [
        (0, 1.0),
        (1, 1.0),
        (2, 5.0),
        (3, 5.0),
    ]


def test_values_logged_before_the_first_state_are_replaced_too(tmp_path):
    run = Run("test", tmp_path, torch.device("cpu"), 0, "")
    for value in (1.0, 5.0):
        with TrainingLog(run, 0) as log:
            log.scalars("train", {"loss": value}, 0)
            log.scalars("train", {"loss": value}, 1)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(0, 5.0), (1, 5.0)]


def test_only_the_leading_process_writes(tmp_path):
    run = Run("test", tmp_path, torch.device("cpu"), 0, "", Team(1, 2))
    with TrainingLog(run, 0) as log:
        log.scalars("train", {"loss": 1.0}, 0)
    assert list(tmp_path.iterdir()) == []
