# SPDX-License-Identifier: Apache-2.0
"""A toy world: images of one pixel whose colour is a point in space, classes are Gaussians."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.inputs import Inputs
from newfound_core.open_world.memory import Sample
from newfound_core.open_world.model import EmbeddingConfig, OpenWorldModel
from torch import nn

CENTRES = {
    "cup": (90, 90, 127),
    "fork": (165, 90, 127),
    "lamp": (90, 165, 127),
    "shoe": (165, 165, 127),
}
FAR = [(10, 127, 240), (245, 127, 10), (127, 245, 250), (127, 8, 5)]


def samples(label, count=30, seed=0, spread=6):
    centre = CENTRES[label]
    generator = np.random.default_rng([seed, *centre])
    points = generator.normal(centre, (spread, spread, 1), size=(count, 3))
    pixels = np.clip(np.rint(points), 0, 255).astype(np.uint8)
    return [Sample(pixel.reshape(1, 1, 3), label, "toy") for pixel in pixels]


def far(count=40, seed=0):
    generator = np.random.default_rng(seed)
    centres = np.array(FAR)[generator.integers(len(FAR), size=count)]
    pixels = np.clip(generator.normal(centres, 4), 0, 255).astype(np.uint8)
    return [Sample(pixel.reshape(1, 1, 3), "far", "toy") for pixel in pixels]


def prepare(image):
    return torch.from_numpy(image.astype(np.float32).transpose(2, 0, 1) - 127) / 32


def model(method, *, dimension=8, seed=0, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Flatten(), nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, dimension)
        )
        nn.init.normal_(network[3].weight, std=1.5)
    head = build_head(method, dimension, **options)
    return OpenWorldModel(network, head, EmbeddingConfig(normalize=False))


def labels_of(some, labels):
    return torch.tensor([labels.index(s.label) if s.label in labels else -1 for s in some])


@pytest.fixture
def toy():
    inputs = Inputs(prepare)
    return SimpleNamespace(
        samples=samples,
        far=far,
        inputs=inputs,
        model=model,
        batch=inputs.batch,
        labels_of=labels_of,
        classes=list(CENTRES),
    )


@pytest.fixture
def points():
    """Random features and labels in double precision: 24 samples, 5 dimensions, 3 classes."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(24) % 3
    centres = 2 * torch.randn(3, 5, generator=generator, dtype=torch.float64)
    noise = torch.randn(24, 5, generator=generator, dtype=torch.float64)
    return SimpleNamespace(features=centres[labels] + noise, labels=labels, means=centres)
