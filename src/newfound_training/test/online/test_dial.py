# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.normalization import DomainBatchNorm
from newfound_training.data import load_pixels, open_images
from newfound_training.online.dial import DialTask
from newfound_training.running.run import Run
from newfound_training.running.training import train
from newfound_training.source.options import SourceOptions

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
