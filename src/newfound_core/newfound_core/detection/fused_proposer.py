# SPDX-License-Identifier: Apache-2.0
"""Regions of colour and segments of depth as one list: one object, one box."""

from dataclasses import dataclass

import numpy as np

from newfound_core.detection.boxes import areas, intersections, iou
from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.proposals import CameraView, Proposals, Proposer, Source
from newfound_core.errors import ConfigError


@dataclass(frozen=True)
class FusionConfig:
    """When a region of colour and a segment of depth are the same thing."""

    same_iou: float = 0.5
    max_shared: float = 0.5  # of the smaller of two boxes that are different things
    hole_share: float = 0.5  # of a region without depth, for colour to be believed there
    flat_discount: float = 0.5  # of the objectness of a region in which depth sees no object

    def __post_init__(self) -> None:
        for name in ("same_iou", "max_shared", "hole_share", "flat_discount"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be in [0, 1], got {getattr(self, name)}")


class FusedProposer:
    """Depth where it has measured, colour where it has not.

    A region that covers the same as a segment confirms it. One that holds several segments, or is
    a part of one, is dropped: depth separates better. One apart from all segments is something
    flat, or something that depth does not see, as glass. Without depth it is colour alone.
    """

    needs_depth = True

    def __init__(
        self, depth: DepthSegments, colour: Proposer, config: FusionConfig | None = None
    ) -> None:
        self.depth, self.colour = depth, colour
        self.config = config or FusionConfig()
        self.min_objectness = depth.min_objectness

    @property
    def camera(self) -> CameraView:
        """How the depth camera sees."""
        return self.depth.camera

    @camera.setter
    def camera(self, view: CameraView) -> None:
        self.depth.camera = view

    def propose(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """Boxes of both, most certain first."""
        regions = self.colour.propose(rgb, None)
        # Both are filtered by what their own proposer calls an object: scales may differ.
        regions = regions.take(np.flatnonzero(regions.objectness >= self.colour.min_objectness))
        if depth is None:
            return regions
        segments = self.depth.propose(rgb, depth)
        return fuse(segments, regions, _holes(depth, rgb.shape), self.config)


def fuse(
    segments: Proposals, regions: Proposals, holes: np.ndarray, config: FusionConfig
) -> Proposals:
    """One list of both; `holes` is a summed-area table of what depth has not measured."""
    boxes, objectness = segments.boxes.copy(), segments.objectness.copy()
    sources: list[Source] = list(segments.sources)
    same = iou(regions.boxes, boxes)
    shared = intersections(regions.boxes, boxes)
    smaller = np.minimum(areas(regions.boxes)[:, None], areas(boxes)[None])
    shared = shared / np.maximum(smaller, 1e-6)
    unseen = _share(holes, regions.boxes)
    alone = []
    for index, region in enumerate(regions.boxes):
        meets = np.flatnonzero(shared[index] > config.max_shared)
        if same[index].max(initial=0) >= config.same_iou:
            best = int(same[index].argmax())
        elif len(meets) == 1 and unseen[index] > config.hole_share:
            best = int(meets[0])  # depth has seen a part of it, as the cap of a glass bottle
            boxes[best] = _around(region, boxes[best])
        else:
            if not len(meets):
                alone.append(index)
            continue
        sure = regions.objectness[index]
        if sources[best] == "depth":  # later regions of the same thing add nothing
            objectness[best] = 1 - (1 - objectness[best]) * (1 - sure)
            sources[best] = "depth+colour"
    flat = config.flat_discount * (1 - np.minimum(unseen[alone] / max(config.hole_share, 1e-6), 1))
    found = Proposals(
        np.concatenate([boxes, regions.boxes[alone]]),
        np.concatenate([objectness, regions.objectness[alone] * (1 - flat)]).astype(np.float32),
        (*sources, *(regions.sources[i] for i in alone)),
        segments.scene,
    )
    return found.take(np.argsort(-found.objectness, kind="stable"))


def _around(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.concatenate([np.minimum(one[:2], other[:2]), np.maximum(one[2:], other[2:])])


def _holes(depth: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Summed-area table, [H + 1, W + 1], of the pixels of the image that have no depth."""
    missing = ~((depth > 0) & np.isfinite(depth))
    rows = np.linspace(0, depth.shape[0] - 1, shape[0]).round().astype(int)
    columns = np.linspace(0, depth.shape[1] - 1, shape[1]).round().astype(int)
    table = np.zeros((shape[0] + 1, shape[1] + 1))
    table[1:, 1:] = missing[rows][:, columns].cumsum(0, dtype=np.int64).cumsum(1)
    return table


def _share(table: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Share of each box that a summed-area table counts."""
    left, top, right, bottom = np.rint(boxes).astype(int).T
    total = table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]
    return total / np.maximum((right - left) * (bottom - top), 1)
