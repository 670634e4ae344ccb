# SPDX-License-Identifier: Apache-2.0
"""The back ends of a node on one 640x480 image: EfficientNet-Lite0 at 224 px, on this CPU.

All take turns in one loop; the resizing of the image is part of each. `ratio` is to plain torch.
A back end that does not work here is listed with its reason.
"""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from newfound_core.errors import NewfoundError
from newfound_core.inference import InferenceConfig, build_inference
from newfound_core.models import load_model
from newfound_core.testing import usual
from newfound_runtime.images import to_rgb
from newfound_runtime.testing import image
from tests.bench._stream import SIZE
from tests.bench._timing import interleaved, median_ms

CONFIGS = {
    "torch": InferenceConfig(),
    "torch, channels_last": InferenceConfig(channels_last=True),
    "compile": InferenceConfig("compile"),
    "compile, channels_last": InferenceConfig("compile", channels_last=True),
    "onnx": InferenceConfig("onnx", threads=2),
}
ADAPT = {"torch", "torch, channels_last", "onnx"}


def run(quick: bool) -> list[dict]:
    torch.set_num_threads(2)
    rgb, rows = to_rgb(image(*SIZE)), []
    turns: dict[str, Callable[[], object]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = usual(Path(place) / "model")
        for name, config in CONFIGS.items():
            try:
                inference = build_inference(load_model(folder), config)
                turns[name] = lambda inference=inference: inference([rgb])
            except NewfoundError as error:
                rows.append(row(name, float("nan"), float("nan"), str(error)))
    seconds = interleaved(turns, rounds=10 if quick else 100)
    for name in turns:
        pairs = zip(seconds[name], seconds["torch"], strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        rows.append(row(name, median_ms(seconds[name]), ratio, ""))
    return rows


def row(name: str, milliseconds: float, ratio: float, refused: str) -> dict:
    adapts = "yes" if name in ADAPT else "no"
    return {"backend": name, "ms": milliseconds, "ratio": ratio, "adapts": adapts,
            "refused": refused}  # fmt: skip
