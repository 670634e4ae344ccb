# SPDX-License-Identifier: Apache-2.0
"""Segmentation of a 320x240 image by `models/rooms_segments`, from pixels to mask, on two cores.

By every back end, and by PyTorch with 10 to 100 classes that are known but not seen, and with 100
that are all seen somewhere (random weights). All take turns in one loop; `ratio` is to torch.
Target: at most 1.2 times the cost with 100 known classes.
"""

import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from newfound_core.inference import InferenceConfig
from newfound_core.models import LoadedModel, load_model
from newfound_core.segmentation.network import SegmentationNetwork
from newfound_core.segmentation.segmenter import Segmenter, decide
from newfound_sim.rooms import room_image
from tests import ROOT
from tests.bench._timing import interleaved, median_ms

FOLDER = ROOT / "models" / "rooms_segments"
CONFIGS = {
    "torch": InferenceConfig(),
    "torch, channels_last": InferenceConfig(channels_last=True),
    "onnx": InferenceConfig("onnx", threads=2),
}
CLASSES = (10, 30, 100)


def run(quick: bool) -> list[dict]:
    torch.set_num_threads(2)
    rgb = room_image("cottage", "cloudy", "office", 5, (320, 240), samples=2).rgb
    turns: dict[str, Callable[[], object]] = {
        name: segmenting(Segmenter.load(FOLDER, config), rgb) for name, config in CONFIGS.items()
    }
    for count in CLASSES:
        turns[f"torch, {count} classes"] = with_classes(rgb, count, seen=False)
    turns[f"torch, {CLASSES[-1]} classes seen"] = with_classes(rgb, CLASSES[-1], seen=True)
    seconds = interleaved(turns, rounds=5 if quick else 60)
    rows = []
    for name in turns:
        pairs = zip(seconds[name], seconds["torch"], strict=True)
        ms = median_ms(seconds[name])
        ratio = statistics.median(a / b for a, b in pairs)
        rows.append({"segmenter": name, "ms": ms, "ratio": ratio, "frames per second": 1e3 / ms})
    return rows


def segmenting(segmenter: Segmenter, rgb: np.ndarray) -> Callable[[], object]:
    return lambda: segmenter.segment(rgb)


def with_classes(rgb: np.ndarray, count: int, *, seen: bool) -> Callable[[], object]:
    """The same network with another number of classes."""
    loaded: LoadedModel = load_model(Path(FOLDER), "segmentation")
    network = loaded.model
    assert isinstance(network, SegmentationNetwork)
    torch.manual_seed(0)
    before = network.classifier
    head = nn.Conv2d(before.in_channels, count, 1)
    if not seen:
        kept = min(count, before.out_channels)
        nn.init.zeros_(head.weight)
        nn.init.constant_(head.bias, -20.0)
        with torch.no_grad():
            head.weight[:kept], head.bias[:kept] = before.weight[:kept], before.bias[:kept]
    network.classifier = head

    @torch.no_grad()
    def segment() -> object:
        pixels = network(loaded.prepare([rgb])).pixels[0]
        return decide(pixels, (rgb.shape[1], rgb.shape[0]))

    return segment
