# SPDX-License-Identifier: Apache-2.0
"""What a region network is trained for: which place predicts which object, and how well.

Places are assigned as in FCOS (arXiv:1904.01355, section 3.1, with its centre sampling); the loss
of a quality is the quality focal loss (arXiv:2006.04388, eq. 4). See `region_network`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torchvision.ops import box_iou, generalized_box_iou_loss

_MIDDLE = 1.5  # strides from an object's centre within which places predict it
_REACH = 6.0  # strides from a place to the farthest side that its map predicts
_MATCH = 0.3  # IoU from which the second stage is trained to move a box onto an object


def place_losses(
    boxes: Tensor,
    logits: Tensor,
    objects: Sequence[Tensor],
    places: Tensor,
    strides: Tensor,
    *,
    background_weight: float,
) -> dict[str, Tensor]:
    """Losses of the boxes [B, places, 4] and qualities [B, places] of every place."""
    box_loss, quality, count = [], [], 0
    for of_image, logit, truth in zip(boxes, logits, objects, strict=True):
        assigned = assign(places, strides, truth)
        middle = assigned >= 0
        count += int(middle.sum())
        wanted = truth[assigned[middle]]
        box_loss.append(generalized_box_iou_loss(of_image[middle], wanted, reduction="sum"))
        weight = torch.where(inside_any(places, truth), 1.0, background_weight)
        overlap = best_overlap(of_image.detach(), truth)
        quality.append((weight * quality_loss(logit, overlap)).sum())
    return {
        "boxes": torch.stack(box_loss).sum() / max(count, 1),
        "quality": torch.stack(quality).sum() / max(count, 1),
    }


def refinement_losses(
    before: Sequence[Tensor],
    after: Sequence[Tensor],
    logits: Sequence[Tensor],
    objects: Sequence[Tensor],
    *,
    background_weight: float,
) -> dict[str, Tensor]:
    """Losses of the second stage: boxes [N, 4] before and after it, qualities [N] by image."""
    moved, quality, matches = [], [], 0
    for old, new, logit, truth in zip(before, after, logits, objects, strict=True):
        near = best_overlap(old, truth) >= _MATCH
        matches += int(near.sum())
        weight = torch.where(near, 1.0, background_weight)
        overlap = best_overlap(new.detach(), truth)
        quality.append((weight * quality_loss(logit, overlap)).sum())
        wanted = truth[box_iou(old[near], truth).argmax(1)] if near.any() else new[near]
        moved.append(generalized_box_iou_loss(new[near], wanted, reduction="sum"))
    return {
        "refined_boxes": torch.stack(moved).sum() / max(matches, 1),
        "refined_quality": torch.stack(quality).sum() / max(matches, 1),
    }


def assign(places: Tensor, strides: Tensor, objects: Tensor) -> Tensor:
    """The object that each place [places] predicts, the smallest one if several; -1 for none.

    A place predicts objects in whose middle it lies, on the map whose stride suits their size.
    """
    none = torch.full((len(places),), -1, device=places.device)
    if not len(objects):
        return none
    low, high = objects[None, :, :2], objects[None, :, 2:]
    point, stride = places[:, None], strides[:, None]
    sides = torch.cat([point - low, high - point], -1)  # [places, objects, 4]
    off_centre = (point - (low + high) / 2).abs().amax(-1)
    farthest = sides.amax(-1)
    from_ = torch.where(stride == strides.min(), 0.0, _REACH * stride / 2)
    until = torch.where(stride == strides.max(), torch.inf, _REACH * stride)
    fits = (sides.amin(-1) > 0) & (off_centre < _MIDDLE * stride)
    fits &= (farthest >= from_) & (farthest < until)
    area = (high - low).prod(-1).expand_as(fits)
    smallest, which = torch.where(fits, area, torch.inf).min(1)
    return torch.where(smallest.isfinite(), which, none)


def inside_any(places: Tensor, objects: Tensor) -> Tensor:
    """Whether each place lies in a labelled object."""
    point = places[:, None]
    return ((point > objects[None, :, :2]) & (point < objects[None, :, 2:])).all(-1).any(1)


def best_overlap(boxes: Tensor, objects: Tensor) -> Tensor:
    """The IoU of each box with the object that it covers best; 0 without objects."""
    if not len(objects):
        return boxes.new_zeros(len(boxes))
    return box_iou(boxes, objects).amax(1)


def quality_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Quality focal loss, (q - target)^2 BCE(q, target), of each logit."""
    entropy = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (logits.detach().sigmoid() - target).square() * entropy


def jittered(boxes: Tensor, count: int = 4, amount: float = 0.25) -> Tensor:
    """Random variants of boxes, their corners moved by up to a share of their sides."""
    sides = (boxes[:, 2:] - boxes[:, :2]).repeat(1, 2)
    moves = torch.rand(count, *boxes.shape, device=boxes.device) * 2 - 1
    return (boxes + amount * moves * sides).flatten(0, 1)
