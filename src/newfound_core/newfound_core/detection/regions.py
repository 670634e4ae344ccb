# SPDX-License-Identifier: Apache-2.0
"""Features of regions: every box of a frame as a crop, all crops in one pass of the network.

Not pooled from a map of the whole image, as in Faster R-CNN: the head's means and thresholds were
learned from crops at the network's own size. On a camera image the last map has one cell per
32 pixels, so a cup covers two or three cells that mostly see its surroundings, at a scale the
network was not trained on. `pooled_features` does it that way; the README says what it costs.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from newfound_core.backbones import Backbone
from newfound_core.detection.boxes import square_around
from newfound_core.models import LoadedModel


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
