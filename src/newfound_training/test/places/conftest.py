# SPDX-License-Identifier: Apache-2.0
"""Rooms of three buildings in two lights, as coloured squares, and tiny networks for them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from newfound_core.backbones import build_backbone
from newfound_training.data import load_pixels, open_images
from newfound_training.places.data import PlaceImages
from newfound_training.places.options import PlacesOptions
from newfound_training.running.command import Run

COLOURS = {"kitchen": (220, 40, 40), "office": (40, 200, 40), "bedroom": (40, 60, 220)}
SHADES = {"cottage": (1.0, 1.0, 1.0), "loft": (0.5, 0.6, 0.7), "villa": (1.0, 0.8, 0.5)}
LIGHTS = {"day": 1.0, "night": 0.6}


def draw(path: Path, colour: np.ndarray, seed: int, size: int = 40) -> None:
    """A coloured square on a noisy background."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(90, 130, (size, size, 3)).astype(np.uint8)
    top, left = generator.integers(0, size // 2, 2)
    pixels[top : top + size // 2, left : left + size // 2] = colour
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="session")
def rooms(tmp_path_factory) -> Path:
    """`<building>_<light>/<place>/`: 6 folders of 3 places with 4 images each."""
    root = tmp_path_factory.mktemp("rooms")
    seed = 0
    for building, shade in SHADES.items():
        for light, factor in LIGHTS.items():
            for place, colour in COLOURS.items():
                seen = np.array(colour) * shade * factor
                for number in range(4):
                    seed += 1
                    draw(root / f"{building}_{light}" / place / f"{number}.png", seen, seed)
    return root


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory) -> str:
    """A file with the weights of a backbone, as pretraining would leave it."""
    torch.manual_seed(1)
    backbone = build_backbone("cifar_resnet20")
    path = tmp_path_factory.mktemp("weights") / "backbone.safetensors"
    save_file(backbone.state_dict(), path)
    return str(path)


@pytest.fixture(scope="session")
def tiny(tiny_weights: str) -> PlacesOptions:
    """A network of a second, part of it frozen, with its rows remembered."""
    return PlacesOptions(
        backbone="cifar_resnet20",
        weights=tiny_weights,
        image_size=16,
        batch_size=12,
        iterations=3,
        frozen_stages=2,
        remembered_variants=2,
        domain_part="first",
    )


@pytest.fixture
def tiny_flags(tiny_weights: str) -> list[str]:
    """The same on the command line."""
    flags = "--backbone cifar_resnet20 --image-size 16 --batch-size 12 --frozen-stages 2"
    return [*flags.split(), "--weights", tiny_weights, "--domain-part", "first"]


@pytest.fixture
def images(rooms: Path) -> PlaceImages:
    return PlaceImages(load_pixels(open_images(rooms), 16), "first")


@pytest.fixture
def walks(images: PlaceImages) -> PlaceImages:
    """The same as if every folder were one walk with a camera."""
    every = images.pixels.images
    listed = replace(every, groups=tuple(str(name) for name in images.folders))
    return PlaceImages(replace(images.pixels, images=listed), "first")


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    def make(seed: int = 0, name: str = "run") -> Run:
        return Run("test", tmp_path / name, torch.device("cpu"), seed, "")

    return make
