# SPDX-License-Identifier: Apache-2.0
"""Six classes of coloured squares in two splits, and a network that learns them in seconds."""

from pathlib import Path

import numpy as np
import pytest
import torch

from newfound_core.open_world.memory import Sample
from newfound_training.openworld.dataset import Protocol, build_network, load_dataset, load_groups
from newfound_training.openworld.incremental import Incremental
from newfound_training.openworld.options import OpenWorldOptions, parse_row

CLASSES = {
    "black": (5, 5, 5),
    "blue": (30, 60, 220),
    "green": (40, 200, 60),
    "red": (220, 40, 40),
    "white": (250, 250, 250),
    "yellow": (220, 210, 40),
}
SMALL = {
    "backbone": "cifar_resnet20",
    "weights": "random",
    "width": 0.25,
    "image_size": 16,
    "frozen_stages": 0,
}


@pytest.fixture(scope="session")
def squares(tmp_path_factory, request) -> Path:
    """Twelve training and six test images of each class."""
    from PIL import Image

    root = tmp_path_factory.mktemp("squares")
    for split, count in (("train", 12), ("test", 6)):
        for number, (name, colour) in enumerate(CLASSES.items()):
            folder = root / split / name
            folder.mkdir(parents=True)
            for i in range(count):
                generator = np.random.default_rng([number, i, count])
                pixels = generator.integers(90, 130, (16, 16, 3)).astype(np.uint8)
                top, left = generator.integers(0, 6, 2)
                pixels[top : top + 10, left : left + 10] = colour
                Image.fromarray(pixels).save(folder / f"{i:02d}.png")
    return root


@pytest.fixture
def small_options(squares):
    """Options of a small run, as keyword arguments for an options class."""
    return {"data": str(squares), **SMALL}


@pytest.fixture
def small_flags(squares, tmp_path) -> list[str]:
    """The same as a command line, writing to `out`."""
    flags = ["--data", str(squares), "--out", str(tmp_path / "out")]
    for name, value in SMALL.items():
        flags += [f"--{name.replace('_', '-')}", str(value)]
    return flags


@pytest.fixture
def make_incremental(small_options, tmp_path):
    """A run of three steps over four of the classes."""

    def make(row: str = "bdoc: method=bdoc epochs=3 later_epochs=2", **changes):
        options = OpenWorldOptions(**small_options)
        backbone = build_network(options, 0)
        dataset = load_dataset(
            options, load_groups(options), list(CLASSES), torch.device("cpu"), backbone=backbone
        )
        protocol = Protocol((("red", "blue"), ("green",), ("white",)), ("black", "yellow"))
        values = {"memory_size": 24, "seed": 3, "folder": tmp_path / "state"} | changes
        return Incremental(
            dataset,
            protocol,
            parse_row(row),
            device=torch.device("cpu"),
            feature_dim=backbone.feature_dim,
            **values,
        )

    return make


@pytest.fixture
def make_samples():
    """Samples of a class with random pixels."""

    def make(label: str, count: int, size: int = 16, seed: int = 0) -> list[Sample]:
        generator = np.random.default_rng(seed)
        images = generator.integers(0, 255, (count, size, size, 3)).astype(np.uint8)
        return [Sample(image, label, f"{label}{i}") for i, image in enumerate(images)]

    return make
