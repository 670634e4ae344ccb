# SPDX-License-Identifier: Apache-2.0
"""Real still pictures as a camera that does not quite stand still sees them.

Frames are shifted by up to 2 pixels, brighter or darker by up to 5 %, coded as JPEG; depth has the
noise of a Kinect, sigma = 1.4 mm z^2 (Khoshelham and Elberink 2012, doi:10.3390/s120201437), and
lost pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np

from newfound_training.detector.coco import read_rgb
from newfound_training.detector.sources import for_training, read_source, reported
from studies.depth_proposals import osd_scenes

T = TypeVar("T")

STILLS, SECONDS, RATE = 9, 5, 10
SHIFT, BRIGHTNESS, JPEG_QUALITY = 2.0, 0.05, 85
DEPTH_NOISE, DEPTH_LOST = 1.4e-3, 0.01  # sigma in m at 1 m; share of pixels


@dataclass(frozen=True)
class Still:
    """A picture, and where its objects are."""

    rgb: np.ndarray
    depth: np.ndarray | None  # m
    boxes: np.ndarray  # [N, 4]


def osd_stills(root: Path, *, choice: bool = False) -> list[Still]:
    """Nine scenes of odd number, spread over the kinds of scenes; of even number for choices."""
    return _spread([Still(*scene) for scene in osd_scenes(root, odd=not choice)])


def coco_stills(root: Path, *, choice: bool = False) -> list[Still]:
    """Nine photographs of two to eight objects that `models/regions` was not trained on.

    For choices, nine that it was trained on.
    """
    pictures = (for_training if choice else reported)(read_source(root), 3)
    shown = [picture for picture in pictures if 2 <= len(picture.boxes) <= 8]
    return [Still(read_rgb(picture), None, picture.boxes) for picture in _spread(shown)]


def _spread(found: Sequence[T]) -> list[T]:
    return [found[i] for i in np.linspace(0, len(found) - 1, STILLS).round().astype(int)]


def jittered(
    still: Still, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """One frame of a camera that looks at a still: colour, depth, and boxes of its objects."""
    height, width = still.rgb.shape[:2]
    shift = generator.uniform(-SHIFT, SHIFT, 2)
    matrix = np.array([[1, 0, shift[0]], [0, 1, shift[1]]])
    rgb = cv2.warpAffine(still.rgb, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE)
    gain = 1 + generator.uniform(-BRIGHTNESS, BRIGHTNESS)
    rgb = np.clip(rgb.astype(np.float32) * gain, 0, 255).astype(np.uint8)
    coded = cv2.imencode(".jpg", rgb, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1]
    rgb = cv2.imdecode(coded, cv2.IMREAD_COLOR)  # channels stay as they are
    depth = still.depth
    if depth is not None:
        depth = cv2.warpAffine(
            depth,
            matrix,
            (width, height),
            flags=cv2.INTER_NEAREST,
            borderMode=cv2.BORDER_REPLICATE,
        )
        noise = generator.standard_normal(depth.shape, np.float32)
        depth = depth + DEPTH_NOISE * depth**2 * noise
        depth[generator.random(depth.shape, np.float32) < DEPTH_LOST] = 0
    return rgb, depth, still.boxes + np.tile(shift, 2).astype(np.float32)
