# SPDX-License-Identifier: Apache-2.0
"""A tiny open-world checkpoint with a memory: coloured squares and a network of few weights."""

import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.models import save_model
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.inputs import Inputs
from newfound_core.open_world.learner import learn_step
from newfound_core.open_world.memory import Memory, MemoryConfig, Sample
from newfound_core.open_world.memory_store import save_memory
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.step_config import StepConfig
from newfound_core.preprocessing import Preprocessing

COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (30, 60, 220)}


def _squares(label, count=5):
    generator = np.random.default_rng(len(label))
    for _ in range(count):
        pixels = generator.integers(90, 130, (16, 16, 3)).astype(np.uint8)
        pixels[3:13, 3:13] = COLOURS[label]
        yield Sample(pixels, label, "test")


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory):
    """A function that writes an open-world checkpoint of a method and returns its folder."""

    def make(method="bdoc", labels=tuple(COLOURS), memory=True):
        torch.manual_seed(0)
        backbone = build_backbone("cifar_resnet20", width=0.25)
        model = OpenWorldModel(backbone, build_head(method, backbone.feature_dim))
        preprocessing = Preprocessing(16)
        step = learn_step(
            model,
            [sample for label in labels for sample in _squares(label)],
            Memory(MemoryConfig(30)),
            Inputs(preprocessing),
            StepConfig(epochs=0),
        )
        folder = tmp_path_factory.mktemp("checkpoint") / method
        write = (lambda place: save_memory(step.memory, place)) if memory else None
        return save_model(folder, step.model, labels, preprocessing, write_memory=write)

    return make
