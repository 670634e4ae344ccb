# SPDX-License-Identifier: Apache-2.0
"""A world simple enough to be learned in a test: stripes of four directions, in any light."""

from pathlib import Path

import cv2
import numpy as np
import torch
from torch.nn import functional

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.models import save_model
from newfound_core.preprocessing import Preprocessing

LABELS = ("lying", "rising", "standing", "falling")
SIZE = 32


def grating(label: int, random: np.random.Generator) -> np.ndarray:
    """Stripes in the direction of a label, of random width and phase, with noise."""
    angle = np.pi * (label / 4 + random.uniform(-0.06, 0.06))
    y, x = np.mgrid[:SIZE, :SIZE]
    phase = random.uniform(0.5, 0.9) * (x * np.sin(angle) + y * np.cos(angle))
    wave = np.sin(phase + random.uniform(0, 2 * np.pi))
    colour = random.uniform(60, 100, 3)
    pixels = 128 + wave[..., None] * colour + random.normal(0, 20, (SIZE, SIZE, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8)


def dimmed(pixels: np.ndarray) -> np.ndarray:
    """The same in the light of one weak, reddish lamp."""
    return (pixels * np.array([0.4, 0.2, 0.1])).astype(np.uint8)


def pictures(folder: Path, count: int, seed: int, dim: bool) -> list[tuple[Path, str]]:
    """Pictures of all labels in random order, on disk, without loss."""
    random, found = np.random.default_rng(seed), []
    folder.mkdir(parents=True)
    for number in range(count):
        label = int(random.integers(4))
        rgb = grating(label, random)
        rgb = dimmed(rgb) if dim else rgb
        path = folder / f"{number:05d}.jpg"
        cv2.imwrite(str(path), rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 100])
        found.append((path, LABELS[label]))
    return found


def train(folder: Path, steps: int = 80) -> Path:
    """A small network that has learned the stripes in full light, as a checkpoint."""
    torch.manual_seed(0)
    random, preprocessing = np.random.default_rng(0), Preprocessing(size=SIZE)
    model = Classifier(build_backbone("cifar_resnet20", width=0.25), len(LABELS)).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(steps):
        labels = random.integers(4, size=32)
        images = preprocessing.batch([grating(int(label), random) for label in labels])
        loss = functional.cross_entropy(model(images), torch.from_numpy(labels))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return save_model(folder, model, LABELS, preprocessing)
