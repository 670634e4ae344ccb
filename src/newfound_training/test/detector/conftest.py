# SPDX-License-Identifier: Apache-2.0
"""Pictures of bright rectangles on noise, annotated as the simulator does."""

import json

import cv2
import numpy as np
import pytest


def _draw(generator):
    pixels = generator.integers(60, 80, (48, 64, 3)).astype(np.uint8)
    left, top = int(generator.integers(2, 30)), int(generator.integers(2, 20))
    width, height = (int(v) for v in generator.integers(14, 24, 2))
    pixels[top : top + height, left : left + width] = generator.integers(180, 255, 3)
    return pixels, [left, top, width, height]


@pytest.fixture(scope="session")
def boxes_data(tmp_path_factory):
    """Two domains of twelve pictures, one object each; every third is a mug, the others cups."""
    root = tmp_path_factory.mktemp("detection")
    for number, domain in enumerate(("bright", "dark")):
        generator = np.random.default_rng(number)
        (root / domain / "images").mkdir(parents=True)
        images, entries = [], []
        for index in range(12):
            pixels, box = _draw(generator)
            name = f"images/{index:04d}.png"
            cv2.imwrite(str(root / domain / name), pixels)
            size = {"width": 64, "height": 48}
            images.append({"id": index + 1, "file_name": name, **size})
            category = 1 if index % 3 == 0 else 2
            entry = {"id": index + 1, "image_id": index + 1, "category_id": category}
            entries.append({**entry, "bbox": box, "iscrowd": 0})
        categories = [{"id": 1, "name": "mug"}, {"id": 2, "name": "cup"}]
        document = {"images": images, "annotations": entries, "categories": categories}
        (root / domain / "annotations.json").write_text(json.dumps(document))
    return root
