# SPDX-License-Identifier: Apache-2.0
"""Boxes as rows of left, top, right, bottom in pixels; right and bottom are exclusive."""

import numpy as np


def areas(boxes: np.ndarray) -> np.ndarray:
    """The area of each of [N, 4] boxes; 0 where a side is not positive."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    return sides[:, 0] * sides[:, 1]


def intersections(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Area that every box of [N, 4] shares with every box of [M, 4], as [N, M]."""
    corner = np.maximum(one[:, None, :2], other[None, :, :2])
    opposite = np.minimum(one[:, None, 2:], other[None, :, 2:])
    sides = np.maximum(opposite - corner, 0)
    return sides[..., 0] * sides[..., 1]


def iou(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Intersection over union of every box of [N, 4] with every box of [M, 4], as [N, M]."""
    shared = intersections(one, other)
    union = areas(one)[:, None] + areas(other)[None] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def clipped(boxes: np.ndarray, width: int, height: int) -> np.ndarray:
    """Boxes cut off at the borders of an image."""
    return np.clip(boxes, 0, np.array([width, height, width, height], boxes.dtype))


def distinct(boxes: np.ndarray, scores: np.ndarray, max_iou: float, count: int) -> np.ndarray:
    """Indices of at most `count` boxes, best first, none overlapping a better one too much."""
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    for index in order:
        if len(kept) == count:
            break
        if not kept or iou(boxes[index : index + 1], boxes[kept]).max() <= max_iou:
            kept.append(int(index))
    return np.array(kept, np.int64)


def square_around(box: np.ndarray, margin: float, width: int, height: int) -> np.ndarray:
    """A square box around another, larger by a share of it, moved inside the image.

    Where the image is smaller than the square, the result is cut off and not square.
    """
    centre = (box[:2] + box[2:]) / 2
    side = max(1.0, float((box[2:] - box[:2]).max()) * (1 + margin))
    size = np.array([width, height], np.float64)
    low = np.minimum(np.maximum(centre - side / 2, 0), np.maximum(size - side, 0))
    corner = np.floor(low).astype(np.int64)
    opposite = np.minimum(np.ceil(low + side), size).astype(np.int64)
    return np.concatenate([corner, opposite])
