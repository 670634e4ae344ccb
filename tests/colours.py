# SPDX-License-Identifier: Apache-2.0
"""A world of coloured squares, and a tiny open-world model that knows three of the colours."""

from pathlib import Path

import numpy as np
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
YELLOW = (230, 220, 40)  # not among them


def square(colour: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    """A picture of a square of a colour on grey noise, uint8 [48, 64, 3]."""
    generator = np.random.default_rng([seed, *colour])
    pixels = generator.integers(100, 120, (48, 64, 3)).astype(np.uint8)
    pixels[8:40, 12:52] = colour
    return pixels


def colour_model(folder: Path) -> Path:
    """A checkpoint with a memory; nothing is trained, means and limits are enough."""
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    model = OpenWorldModel(backbone, build_head("bdoc", backbone.feature_dim))
    preprocessing = Preprocessing(16)
    samples = [
        Sample(square(colour, seed), label, f"{label}{seed}")
        for label, colour in COLOURS.items()
        for seed in range(6)
    ]
    memory, inputs = Memory(MemoryConfig(40)), Inputs(preprocessing)
    step = learn_step(model, samples, memory, inputs, StepConfig(epochs=0))
    return save_model(
        folder,
        step.model,
        list(COLOURS),
        preprocessing,
        write_memory=lambda place: save_memory(step.memory, place),
    )
