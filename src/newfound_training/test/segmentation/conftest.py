# SPDX-License-Identifier: Apache-2.0

import json

import cv2
import numpy as np
import pytest

NAMES = ["grey", "red", "green", "blue", "unlabelled"]
COLOURS = [(0, 0, 0), (220, 40, 40), (40, 200, 60), (30, 60, 220)]


def scene(seed, classes=(1, 2, 3)):
    """Rectangles on grey noise, and the number of the colour of every pixel."""
    generator = np.random.default_rng(seed)
    rgb = generator.integers(90, 130, (48, 64, 3)).astype(np.uint8)
    labels = np.zeros((48, 64), np.uint8)
    for number, slot in zip(classes, generator.permutation(6), strict=False):
        part = np.s_[slot // 3 * 24 : slot // 3 * 24 + 22, slot % 3 * 21 : slot % 3 * 21 + 19]
        rgb[part], labels[part] = COLOURS[number], number
    labels[0, 0] = 4
    return rgb, labels


def write(folder, pictures, suffix="jpg"):
    """Images and label images of pictures by name."""
    for name, (rgb, labels) in pictures.items():
        for part, pixels, ending in (
            ("images", rgb[..., ::-1], suffix),
            ("labels", labels, "png"),
        ):
            (folder / part).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(folder / part / f"{name}.{ending}"), pixels)
    return folder


@pytest.fixture
def labelled(tmp_path):
    """24 pictures in the layout tree."""
    folder = write(tmp_path / "data", {f"{n:03d}": scene(n) for n in range(24)})
    (folder / "classes.json").write_text(json.dumps({"classes": NAMES}))
    return folder
