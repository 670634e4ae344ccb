# SPDX-License-Identifier: Apache-2.0
"""Labelled pictures of rooms: `images/*.jpg`, `labels/*.png` and `classes.json`. Resumable."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from newfound_core.storage import write_json
from newfound_sim.generate import record_request
from newfound_sim.production import clean, produce, write_jpeg, write_mask
from newfound_sim.rooms.dataset import (
    DOMAINS,
    RoomRequest,
    RoomTask,
    missing_pictures,
    rendered,
)
from newfound_sim.rooms.masks import CLASSES, RoomMasks
from newfound_sim.rooms.room import build_room, generator
from newfound_sim.rooms.viewpoints import floor_map, random_view


@dataclass(frozen=True)
class SegmentRequest(RoomRequest):
    """Pictures of rooms with the class of every pixel."""


def generate_segments(out: Path, request: SegmentRequest, workers: int) -> int:
    """Write the labelled pictures that are missing in `out`; returns how many were."""
    record_request(out, request)
    clean(out)
    write_json(out / "classes.json", {"classes": list(CLASSES)})
    images = out / "images"
    tasks = missing_pictures(request, lambda d, c, n: images / f"{d}_{c}_{n:05d}.jpg")
    produce(tasks, make_segments, workers, "rooms")
    return sum(len(task.pictures) for task in tasks)


def make_segments(task: RoomTask) -> None:
    """Render the missing pictures of one room and their masks."""
    building, _ = DOMAINS[task.domain]
    room = build_room(building, task.category, task.seed)
    masks, free, size = RoomMasks(room), floor_map(room), task.request.size
    for view, image, rgb in rendered(task):
        rng = generator(building, task.category, task.seed, "view", view)
        mask = masks.mask(random_view(room, free, rng, (size, size)))
        write_mask(image.parent.with_name("labels") / f"{image.stem}.png", mask)
        write_jpeg(image, rgb)  # last: it says that its labels are there
