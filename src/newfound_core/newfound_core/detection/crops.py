# SPDX-License-Identifier: Apache-2.0
"""The best views of an object: few, good, and not all from the same moment."""

from dataclasses import dataclass

import cv2
import numpy as np

_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 95]
_SHARP = 60.0  # variance of the Laplacian at which a view counts as half sharp


@dataclass(frozen=True)
class Crop:
    """One view, encoded."""

    image: bytes  # JPEG
    quality: float  # higher is better
    frame: int  # number of the frame it was seen in

    def pixels(self) -> np.ndarray:
        """The view as uint8 [H, W, 3] in RGB order."""
        decoded = cv2.imdecode(np.frombuffer(self.image, np.uint8), cv2.IMREAD_COLOR)
        return cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)


def quality_of(crop: np.ndarray, objectness: float, whole: bool) -> float:
    """How good a view is: large, sharp, surely an object, and `whole`, not cut by the border."""
    small = cv2.resize(crop, (64, 64), interpolation=cv2.INTER_AREA)
    sharpness = float(cv2.Laplacian(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), cv2.CV_32F).var())
    size = min(1.0, min(crop.shape[:2]) / 128)
    return objectness * size * sharpness / (sharpness + _SHARP) * (1.0 if whole else 0.3)


def keep_best(
    crops: tuple[Crop, ...],
    pixels: np.ndarray,
    quality: float,
    frame: int,
    *,
    count: int,
    gap: int,
) -> tuple[Crop, ...]:
    """The crops with a new view among them if it is worth it, best first.

    A view less than `gap` frames from another takes its place or is left out: a robot that
    stands still sees one view many times.
    """
    near = [crop for crop in crops if abs(crop.frame - frame) < gap]
    others = [crop for crop in crops if abs(crop.frame - frame) >= gap]
    if any(crop.quality >= quality for crop in near):
        return crops
    if len(others) >= count and others[-1].quality >= quality:
        return crops
    new = Crop(_encoded(pixels), quality, frame)
    best = sorted([*others, new], key=lambda crop: -crop.quality)
    return tuple(best[:count])


def _encoded(pixels: np.ndarray) -> bytes:
    bgr = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2BGR)
    return cv2.imencode(".jpg", bgr, _JPEG)[1].tobytes()
