# SPDX-License-Identifier: Apache-2.0

import shutil

import numpy as np
import pytest
import torch

from newfound_core.normalization import DomainBatchNorm
from newfound_training.data import load_pixels, open_images
from newfound_training.online.experiment import DialTask, Experiment
from newfound_training.online.options import OnlineOptions
from newfound_training.running.command import Run
from newfound_training.running.training import train
from newfound_training.source import SourceOptions

OPTIONS = SourceOptions(
    backbone="cifar_resnet20",
    weights="random",
    image_size=32,
    batch_size=12,
    frozen_stages=0,
    iterations=25,
)


@pytest.fixture
def task(tree, tmp_path):
    pixels = load_pixels(open_images(tree), 32)
    run = Run("test", tmp_path / "dial", torch.device("cpu"), 0, "")
    return DialTask(pixels.in_domain("bright"), pixels.in_domain("dark"), OPTIONS, run), run


def test_a_batch_holds_both_domains_in_proportion_and_only_source_labels(task):
    batch = task[0].batch(0)
    assert len(batch.images) == 12
    assert len(batch.labels) == 6  # about as many images in each domain


def test_labels_of_the_target_are_never_looked_at(task):
    dial, _ = task
    before = dial.loss(dial.batch(0))
    object.__setattr__(dial._target.images, "labels", np.full(24, 99))
    after = dial.loss(dial.batch(0))
    assert {name: term.item() for name, term in after.items()} == {
        name: term.item() for name, term in before.items()
    }


def test_each_domain_gets_statistics_of_its_own_and_the_target_is_learned(task):
    dial, run = task
    metrics = train(dial, OPTIONS, run)
    layer = next(m for m in dial.model.modules() if isinstance(m, DomainBatchNorm))
    assert not torch.allclose(layer.running_mean[0], layer.running_mean[1], atol=0.01)
    assert metrics["target_accuracy"] > 0.8


@pytest.fixture
def experiment(tree, tmp_path, monkeypatch):
    """Targets of ten frames."""
    preset = {"backbone": "cifar_resnet20", "weights": "random", "image_size": 32}
    monkeypatch.setattr(
        "newfound_training.online.experiment.read_preset",
        lambda *_: preset | {"frozen_stages": 0, "batch_size": 8},
    )
    run = Run("test", tmp_path / "out", torch.device("cpu"), 0, str(tree))
    return Experiment(OnlineOptions(data=str(tree), frames=10), run)


def test_a_source_killed_before_its_result_was_written_is_not_lost(
    experiment, small_model, monkeypatch
):
    def train_on(pixels, options, run):
        shutil.copytree(small_model.directory, run.out / "checkpoint", dirs_exist_ok=True)
        (run.out / "checkpoint" / "README.md").write_text("a card")
        return {"validation_accuracy": 0.5}

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("newfound_training.online.experiment.train_on", train_on)
    with monkeypatch.context() as patch:
        patch.setattr("newfound_training.online.experiment.write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            experiment.model("bright")
    experiment.model("bright")
    assert (experiment.run.out / "sources" / "bright" / "result.json").is_file()


def test_two_domain_training_sees_the_frames_of_the_stream_and_no_others(experiment, monkeypatch):
    seen = []

    def remember(task, options, run):
        seen.extend(source.name for source in task._target.images.sources)
        return {"target_accuracy": 0.5}

    monkeypatch.setattr("newfound_training.online.experiment.train", remember)
    experiment.dial("bright", "dark")
    streamed = experiment._streamed("dark").images.sources
    assert seen == [source.name for source in streamed]
    assert len(seen) == 10
