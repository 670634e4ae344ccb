# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.preprocessing import Preprocessing
from newfound_core.segmentation.network import SegmentationConfig, SegmentationNetwork

CONFIG = SegmentationConfig(width=16, low_width=8, low_stride=2, output_stride=2, steps=(3,))
LABELS = ("background", "red", "green", "blue")
COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (30, 60, 220)}
PREPROCESSING = Preprocessing(32)


@pytest.fixture
def tiny_network():
    """Three classes and the background, with random weights."""
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    return SegmentationNetwork(backbone, len(LABELS), CONFIG).eval()


def scene(labels, seed=0, size=(48, 64)):
    """Rectangles of the labels' colours on grey noise, and their label image."""
    generator = np.random.default_rng([seed, 3])
    rgb = generator.integers(90, 130, (*size, 3)).astype(np.uint8)
    classes = np.zeros(size, np.uint8)
    colours = {**COLOURS, "yellow": (230, 220, 40)}
    high, wide = size[0] // 2, size[1] // 3
    for number, (label, slot) in enumerate(zip(labels, generator.permutation(6), strict=False), 1):
        top, left = slot // 3 * high + generator.integers(4), slot % 3 * wide
        part = np.s_[top : top + high - 4, left : left + wide - generator.integers(1, 5)]
        rgb[part] = colours[label]
        classes[part] = number
    return rgb, classes
