# SPDX-License-Identifier: Apache-2.0

import time

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.nn import functional

from newfound_core.errors import ConfigError, TrainingError
from newfound_core.resume import load_training
from newfound_training.running.command import Run
from newfound_training.running.distributed import DistributedGroup
from newfound_training.running.training import (
    Task,
    TrainingLog,
    TrainingOptions,
    learning_rate_factor,
    train,
)


def factors(schedule, steps, **options):
    return [learning_rate_factor(schedule, step, steps, **options) for step in range(steps)]


def test_step_divides_by_ten_at_ninety_percent():
    assert factors("step", 10) == [1.0] * 9 + [0.1]


def test_cosine_falls_from_one_along_half_a_wave():
    values = factors("cosine", 100)
    assert values[0] == 1
    assert values[50] == pytest.approx(0.5)
    assert values[-1] < 0.001
    assert sorted(values, reverse=True) == values


def test_warmup_rises_linearly():
    assert factors("constant", 6, warmup=3) == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


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
        second = int(time.time())
        while int(time.time()) == second:  # TensorBoard orders files by the second in their name
            time.sleep(0.02)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(0, 5.0), (1, 5.0)]


def test_only_the_leading_process_writes(tmp_path):
    run = Run("test", tmp_path, torch.device("cpu"), 0, "", DistributedGroup(1, 2))
    with TrainingLog(run, 0) as log:
        log.scalars("train", {"loss": 1.0}, 0)
    assert list(tmp_path.iterdir()) == []


OPTIONS = TrainingOptions(iterations=7, batch_size=6, save_every=3, lr=0.05, new_lr=0.1)


class TinyTask(Task):
    """Dropout and batch normalisation included: all that a resumed run could get wrong."""

    def __init__(self, interrupt_at: int = -1) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential()
        self.model.add_module("backbone", nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)))
        self.model.add_module("rest", nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 3)))
        self.interrupt_at = interrupt_at
        self.losses: list[float] = []

    def batch(self, step):
        generator = torch.Generator().manual_seed(step)
        images = torch.randn(6, 4, generator=generator)
        return step, images, images.argmax(1) % 3

    def loss(self, batch):
        step, images, labels = batch
        if step == self.interrupt_at:
            raise KeyboardInterrupt
        loss = functional.cross_entropy(self.model(images), labels)
        self.losses.append(float(loss.detach()))
        return {"classes": loss}

    def evaluate(self):
        return {"steps": float(len(self.losses))}


@pytest.fixture
def make_run(tmp_path):
    def make(name):
        return Run("test", tmp_path / name, torch.device("cpu"), 0, "data")

    return make


@pytest.fixture
def uninterrupted(make_run):
    task = TinyTask()
    train(task, OPTIONS, make_run("whole"))
    return task


@pytest.mark.parametrize("step", range(8))
def test_after_an_interruption_at_any_step_the_weights_are_the_same(step, make_run, uninterrupted):
    run = make_run("interrupted")
    if step < 7:
        with pytest.raises(KeyboardInterrupt):
            train(TinyTask(interrupt_at=step), OPTIONS, run)
    else:  # after the last step, before the result was written
        train(TinyTask(), OPTIONS, run)
    resumed = TinyTask()
    train(resumed, OPTIONS, run)
    for name, tensor in uninterrupted.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


def test_training_lowers_the_loss(make_run):
    task = TinyTask()
    options = TrainingOptions(iterations=60, batch_size=6, lr=0.1, new_lr=0.1)
    train(task, options, make_run("long"))
    assert sum(task.losses[-10:]) < 0.8 * sum(task.losses[:10])


def test_new_layers_have_their_own_learning_rate():
    groups = TinyTask().parameter_groups(0.1, 0.2)
    assert [(g["lr"], len(g["params"])) for g in groups] == [(0.1, 4), (0.2, 2)]


def test_frozen_parameters_are_not_trained():
    task = TinyTask()
    task.model.get_submodule("backbone").requires_grad_(False)
    assert [g["lr"] for g in task.parameter_groups(0.1, 0.2)] == [0.2]


def test_curves_are_logged(make_run):
    run = make_run("logged")
    train(TinyTask(), OPTIONS, run)
    assert list((run.out / "tensorboard").glob("events*"))


def test_mixed_precision_trains_too(make_run):
    options = TrainingOptions(iterations=3, batch_size=6, precision="bfloat16")
    task = TinyTask()
    train(task, options, make_run("mixed"))
    assert all(p.dtype == torch.float32 for p in task.model.parameters())


class SpoiltTask(TinyTask):
    """From a step on its loss, or with `hidden` its gradient only, is no number."""

    def __init__(self, first: int, hidden: bool = False) -> None:
        super().__init__()
        self.first, self.hidden = first, hidden

    def loss(self, batch):
        terms = super().loss(batch)
        if batch[0] >= self.first:
            zero = 0 * self.model.get_parameter("rest.1.bias").sum()
            terms["spoilt"] = zero.sqrt() if self.hidden else zero / zero  # sqrt'(0) is infinite
        return terms


def test_a_loss_that_is_no_number_ends_training_with_the_last_good_state_kept(make_run):
    run = make_run("spoilt")
    with pytest.raises(TrainingError, match=r"in step 4 \(classes .*, spoilt nan\)"):
        train(SpoiltTask(4), OPTIONS, run)
    task = TinyTask()
    optimizer = torch.optim.SGD(task.parameter_groups(0.1, 0.1), momentum=0.9)
    assert load_training(run.out / "state.safetensors", task.model, optimizer) == 3
    assert all(p.isfinite().all() for p in task.model.parameters())


def test_weights_spoilt_by_the_last_step_are_noticed(make_run):
    with pytest.raises(TrainingError, match="no longer finite after the last step"):
        train(SpoiltTask(6, hidden=True), OPTIONS, make_run("spoilt"))


def test_nothing_to_do_is_refused():
    with pytest.raises(ConfigError, match="iterations must be at least 1"):
        TrainingOptions(iterations=0)


@pytest.mark.parametrize("name", ["lr", "new_lr", "momentum", "weight_decay", "warmup", "drop_at"])
def test_rates_that_make_no_sense_are_refused(name):
    for value in (-1, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match=f"{name} must"):
            TrainingOptions(**{name: value})
