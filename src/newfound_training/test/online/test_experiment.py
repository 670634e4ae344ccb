# SPDX-License-Identifier: Apache-2.0
import shutil

import pytest
import torch

from newfound_training.online.experiment import Experiment
from newfound_training.online.options import OnlineOptions
from newfound_training.running.run import Run


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
