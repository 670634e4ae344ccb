# SPDX-License-Identifier: Apache-2.0
"""The camera's light changes half-way: the adaptive node recovers, the frozen one does not.

The world is simple enough to be learned in a test: stripes of four directions, in any light.
"""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch.nn import functional

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.models import save_model
from newfound_core.preprocessing import Preprocessing
from studies.light_change import draw, lit, measure, watch
from studies.playing import make_clip

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


@pytest.mark.slow
def test_accuracy_recovers_with_adaptation_and_not_without(tmp_path):
    """The real nodes and the simulated camera in a process of their own, over DDS."""
    checkpoint = train(tmp_path / "model")
    full = pictures(tmp_path / "full", 150, seed=1, dim=False)
    dim = pictures(tmp_path / "dim", 200, seed=2, dim=True)
    clip = make_clip(tmp_path / "clip", [*lit(full, "full_lamp"), *lit(dim, "dim_lamp")])
    quick = {"frames_per_update": 5, "momentum": 0.2}
    moments = watch(clip, checkpoint, rate=10.0, **quick)
    assert len(moments) > 200
    result = measure(moments, "full_lamp", window=40)
    adapting, frozen = result["adapting"], result["frozen"]
    assert frozen["before"] > 0.9
    assert frozen["recovered"] < frozen["before"] - 0.25
    assert adapting["recovered"] > adapting["before"] - 0.1
    draw([moments], "full_lamp", 40, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
