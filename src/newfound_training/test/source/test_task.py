# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_training.data import load_pixels, open_images
from newfound_training.running.distributed import Team
from newfound_training.running.run import Run
from newfound_training.source.options import SourceOptions
from newfound_training.source.task import SourceTask, build_classifier

OPTIONS = SourceOptions(
    backbone="cifar_resnet20", weights="random", image_size=32, batch_size=8, frozen_stages=0
)


@pytest.fixture
def make_task(tree, tmp_path):
    pixels = load_pixels(open_images(tree), 32).in_domain("bright")

    def make(team=None, seed=0):
        return SourceTask(
            pixels, OPTIONS, Run("test", tmp_path, torch.device("cpu"), seed, "", team or Team())
        )

    return make


def test_a_batch_is_a_function_of_seed_and_step(make_task):
    one, other = make_task(), make_task()
    assert torch.equal(one.batch(5).images, other.batch(5).images)
    assert not torch.equal(one.batch(5).images, one.batch(6).images)
    assert not torch.equal(one.batch(5).images, make_task(seed=1).batch(5).images)


def test_two_processes_see_what_one_sees(make_task):
    whole = make_task().batch(2)
    halves = [make_task(Team(rank, 2)).batch(2) for rank in range(2)]
    assert torch.equal(whole.images[0::2], halves[0].images)
    assert torch.equal(whole.images[1::2], halves[1].images)
    assert torch.equal(whole.labels[1::2], halves[1].labels)


def test_held_out_images_are_never_trained_on(make_task):
    task = make_task()
    assert not set(task.training_set) & set(task.validation_set)
    assert len(task.training_set) + len(task.validation_set) == 24


def test_images_that_belong_together_are_held_out_together(tree, tmp_path):
    pixels = load_pixels(open_images(tree), 32)
    names = tuple(f"{i % 8 // 2}" for i in range(len(pixels)))  # pairs of each folder
    pixels = replace(pixels, images=replace(pixels.images, groups=names))
    options = replace(OPTIONS, validation_share=0.25)
    task = SourceTask(pixels, options, Run("test", tmp_path, torch.device("cpu"), 0, ""))
    held_out = {names[i] for i in task.validation_set}
    assert len(held_out) == 1
    assert not held_out & {names[i] for i in task.training_set}


def test_the_network_starts_the_same_for_the_same_seed(make_task):
    one, other = make_task().model, make_task().model
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_accuracy_is_that_of_the_held_out_images(make_task):
    task = make_task()
    task.model.eval()
    images = task.preprocessing.batch([task._pixels[i] for i in task.validation_set])
    with torch.no_grad():
        predicted = task.model(images).argmax(1).numpy()
    expected = np.mean(predicted == task._pixels.images.labels[task.validation_set])
    assert task.evaluate() == {"validation_accuracy": pytest.approx(expected)}


def test_frozen_stages_keep_their_weights_but_not_their_statistics(make_task):
    model = build_classifier(replace(OPTIONS, frozen_stages=2), 3)
    assert not any(p.requires_grad for p in model.backbone.stem.parameters())
    assert all(p.requires_grad for p in model.classifier.parameters())
    assert model.train().backbone.stem.training


def test_more_stages_than_there_are_cannot_be_frozen():
    with pytest.raises(ConfigError, match="can be frozen"):
        build_classifier(replace(OPTIONS, frozen_stages=99), 3)
