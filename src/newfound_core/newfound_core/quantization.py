# SPDX-License-Identifier: Apache-2.0
"""Networks as 8-bit integers: static quantization of ONNX Runtime, weights per channel.

The ranges of the activations come from images of the kind that the robot will see. What was
quantized is compared with the network on these images, and refused if it is something else.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from newfound_core.errors import ConfigError
from newfound_core.export import OnnxGraph
from newfound_core.models import LoadedModel
from newfound_core.onnx_runtime import INPUT_NAME, make_session

MOST_IMAGES, FEWEST_IMAGES = 200, 20
LEAST_COSINE = 0.97  # between outputs, on average; models that lose less than a point have 0.995


def calibration_batches(loaded: LoadedModel, folder: str | Path) -> list[np.ndarray]:
    """Images of a folder and those below it, prepared [1, 3, H, W]; evenly from all of them."""
    place = Path(folder).expanduser()
    files = sorted(f for f in place.rglob("*") if f.suffix.lower() in (".jpg", ".jpeg", ".png"))
    chosen = files[:: max(1, len(files) // MOST_IMAGES)][:MOST_IMAGES]
    pictures = [cv2.imread(str(file)) for file in chosen]
    readable = [cv2.cvtColor(p, cv2.COLOR_BGR2RGB) for p in pictures if p is not None]
    if len(readable) < FEWEST_IMAGES:
        raise ConfigError(
            f"{place} has {len(readable)} readable images (jpg, png), and 8-bit integers need at "
            f"least {FEWEST_IMAGES} to be calibrated on: set int8_images to a folder that has"
        )
    return [loaded.prepare([rgb]).cpu().numpy() for rgb in readable]


def quantize(graph: OnnxGraph, batches: Sequence[np.ndarray]) -> bytes:
    """The graph with 8-bit weights and activations, if it computes about the same."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter(batches)

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self._left, None)
            return None if batch is None else {INPUT_NAME: batch}

    with tempfile.TemporaryDirectory() as place:
        traced, prepared, quantized = (Path(place) / f"{n}.onnx" for n in range(3))
        traced.write_bytes(graph.content)
        # Symbolic shapes fail for some heads, and are not needed: all shapes but N are fixed.
        quant_pre_process(traced, prepared, skip_symbolic_shape=True)
        quantization.quantize_static(prepared, quantized, Reader(), per_channel=True)
        content = quantized.read_bytes()
    cosine = likeness(graph.content, content, graph.names[0], batches)
    if not cosine >= LEAST_COSINE:
        raise ConfigError(
            f"as 8-bit integers the model answers otherwise (cosine of the outputs {cosine:.3f}, "
            f"at least {LEAST_COSINE} is needed): leave int8_images empty, or give images that "
            "look as those of the camera"
        )
    return content


def likeness(one: bytes, other: bytes, output: str, batches: Sequence[np.ndarray]) -> float:
    """Mean cosine between the outputs of two graphs."""
    sessions = [make_session(content, threads=1) for content in (one, other)]
    cosines = []
    for batch in batches:
        a, b = (s.run([output], {INPUT_NAME: batch})[0].ravel().astype(float) for s in sessions)
        cosines.append(a @ b / max(1e-30, np.linalg.norm(a) * np.linalg.norm(b)))
    return float(np.mean(cosines))
