# SPDX-License-Identifier: Apache-2.0
import numpy as np
from PIL import Image

from newfound_training.places.figures import draw_confusion, draw_differences, draw_weights
from newfound_training.places.table import summary


def test_figures_are_drawn(tmp_path):
    draw_confusion(np.array([[3, 1], [0, 0]]), ["kitchen", "office"], tmp_path / "confusion.png")
    draw_weights({"loft_day": [[1, 2], [2, 1]]}, ["villa", "cottage"], tmp_path / "weights.png")
    result = summary({"bn": {"loft": [0.6, 0.7]}, "wbn": {"loft": [0.7, 0.7]}})
    draw_differences(result | {"methods": {"bn": "BN", "wbn": "WBN*"}}, tmp_path / "d.png")
    for name in ("confusion.png", "weights.png", "d.png"):
        with Image.open(tmp_path / name) as image:
            assert min(image.size) > 100
            assert len(image.convert("RGB").getcolors(100_000)) > 2
