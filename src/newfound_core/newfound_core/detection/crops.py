# SPDX-License-Identifier: Apache-2.0
"""Crops of objects: cut from a frame, embedded by the network, and the best of them kept.

Features are not pooled from a map of the whole image, as in Faster R-CNN: the head's means and
thresholds were learned from crops at the network's own size. On a camera image the last map has
one cell per 32 pixels, so a cup covers two or three cells that mostly see its surroundings, at a
scale the network was not trained on. `pooled_features` does it that way; the README says what it
costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from torch import Tensor

from newfound_core.backbones import Backbone
from newfound_core.detection.boxes import square_around
from newfound_core.models import LoadedModel

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
    stands still sees one view many times. So is the very same image: a recording is played again.
    """
    near = [crop for crop in crops if abs(crop.frame - frame) < gap]
    others = [crop for crop in crops if abs(crop.frame - frame) >= gap]
    if any(crop.quality >= quality for crop in near):
        return crops
    if len(others) >= count and others[-1].quality >= quality:
        return crops
    new = Crop(_encoded(pixels), quality, frame)
    if any(crop.image == new.image for crop in others):
        return crops
    best = sorted([*others, new], key=lambda crop: -crop.quality)
    return tuple(best[:count])


def merge_crops(
    one: tuple[Crop, ...], other: tuple[Crop, ...], *, count: int, gap: int
) -> tuple[Crop, ...]:
    """The best crops of two sets, best first, at least `gap` frames apart and none twice."""
    kept: list[Crop] = []
    for crop in sorted((*one, *other), key=lambda crop: -crop.quality):
        near = any(abs(crop.frame - k.frame) < gap or crop.image == k.image for k in kept)
        if len(kept) < count and not near:
            kept.append(crop)
    return tuple(kept)


def _encoded(pixels: np.ndarray) -> bytes:
    bgr = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2BGR)
    return cv2.imencode(".jpg", bgr, _JPEG)[1].tobytes()


def crops_of(rgb: np.ndarray, boxes: np.ndarray, margin: float) -> list[np.ndarray]:
    """The image around each box as views: square, so that nothing is squeezed."""
    height, width = rgb.shape[:2]
    squares = (square_around(box, margin, width, height) for box in boxes)
    return [rgb[top:bottom, left:right] for left, top, right, bottom in squares]


@torch.inference_mode()
def crop_features(
    loaded: LoadedModel, crops: Sequence[np.ndarray], batch_size: int = 32
) -> Tensor:
    """The network's features of crops, [N, D]."""
    backbone = loaded.model.backbone
    assert isinstance(backbone, Backbone)
    parts = [
        backbone(loaded.prepare(crops[start : start + batch_size]))
        for start in range(0, len(crops), batch_size)
    ]
    return torch.cat(parts) if parts else torch.zeros(0, backbone.feature_dim)


@torch.inference_mode()
def pooled_features(
    loaded: LoadedModel, rgb: np.ndarray, boxes: np.ndarray, size: int = 640
) -> Tensor:
    """Features of boxes from one map of the whole image, [N, D]; cheaper and less accurate."""
    from torchvision.ops import roi_align  # slow to import, and nodes do without

    backbone = loaded.model.backbone
    assert isinstance(backbone, Backbone)
    height, width = rgb.shape[:2]
    preprocessing = loaded.metadata.preprocessing
    squashed = type(preprocessing)(
        size, "squash", preprocessing.mean, preprocessing.std, preprocessing.interpolation
    )
    image = squashed(rgb)[None].to(loaded.device)
    feature_map = backbone.feature_map(image)
    scale = torch.tensor([size / width, size / height] * 2)
    regions = torch.from_numpy(np.ascontiguousarray(boxes)).float() * scale
    pooled = roi_align(
        feature_map,
        [regions.to(feature_map)],
        output_size=7,
        spatial_scale=feature_map.shape[-1] / size,
        aligned=True,
    )
    return backbone.head(pooled)
