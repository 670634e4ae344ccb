# SPDX-License-Identifier: Apache-2.0
"""Room data sets on disk: `<building>_<lighting>/<category>/<number>.jpg`. Resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newfound_sim.errors import DatasetError
from newfound_sim.generate import record_request
from newfound_sim.production import clean, produce, write_jpeg
from newfound_sim.rooms.images import SAMPLES, room_image
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES, LIGHTINGS, domain_name

ROOMS_PER_SEED = 100_000
DOMAINS = {domain_name(b, light): (b, light) for b in BUILDINGS for light in LIGHTINGS}


@dataclass(frozen=True)
class RoomRequest:
    """Square pictures of rooms; image n of a category shows room n // views."""

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    images: int  # per category and domain
    views: int = 3  # pictures of each room
    size: int = 128
    samples: int = SAMPLES
    seed: int = 0  # other seeds show other rooms: use two for training and testing

    def __post_init__(self) -> None:
        _all_known("domain", self.domains, tuple(DOMAINS))
        _all_known("category", self.classes, CATEGORIES)
        for name in ("images", "views", "samples"):
            if getattr(self, name) < 1:
                raise DatasetError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.size < 16:
            raise DatasetError(f"size must be at least 16, got {self.size}")


@dataclass(frozen=True)
class RoomTask:
    """The missing pictures of one room under one light."""

    domain: str
    category: str
    room: int
    pictures: tuple[tuple[int, Path], ...]  # number of the view, where to write it
    request: RoomRequest

    @property
    def seed(self) -> int:
        """That of the room."""
        return self.request.seed * ROOMS_PER_SEED + self.room


def generate_rooms(out: Path, request: RoomRequest, workers: int) -> int:
    """Write the pictures that are missing in `out`; returns how many were."""
    record_request(out, request)
    clean(out)
    tasks = missing_pictures(request, lambda d, c, n: out / d / c / f"{n:05d}.jpg")
    produce(tasks, make_room, workers, "rooms")
    return sum(len(task.pictures) for task in tasks)


def make_room(task: RoomTask) -> None:
    """Render the missing pictures of one room."""
    for _, path, rgb in rendered(task):
        write_jpeg(path, rgb)


def rendered(task: RoomTask) -> Iterator[tuple[int, Path, np.ndarray]]:
    """The missing pictures of one room, uint8 [H, W, 3]: number of the view, and where to."""
    building, lighting = DOMAINS[task.domain]
    request = task.request
    for view, path in task.pictures:
        frame = room_image(
            *(building, lighting, task.category, task.seed, request.size),
            view=view,
            samples=request.samples,
        )
        yield view, path, frame.rgb


def missing_pictures(
    request: RoomRequest, path_of: Callable[[str, str, int], Path]
) -> list[RoomTask]:
    """What is to be rendered; `path_of` a picture, by domain, category and number."""
    tasks = []
    for room in range(-(-request.images // request.views)):
        numbers = range(room * request.views, min((room + 1) * request.views, request.images))
        for domain in request.domains:
            for category in request.classes:
                paths = [(n % request.views, path_of(domain, category, n)) for n in numbers]
                if missing := tuple((view, path) for view, path in paths if not path.exists()):
                    tasks.append(RoomTask(domain, category, room, missing, request))
    return tasks


def find_rooms(names: Sequence[str], known: Sequence[str], kind: str) -> tuple[str, ...]:
    """The names themselves, or every known one for `all`; a building names its domains."""
    if list(names) == ["all"]:
        return tuple(known)
    wanted: list[str] = []
    for name in names:
        of_building = [k for k in known if kind == "domain" and k.startswith(f"{name}_")]
        wanted += of_building or [name]
    _all_known(kind, wanted, known)
    return tuple(wanted)


def _all_known(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise DatasetError(f"unknown {kind} '{name}'; use all, or: {', '.join(known)}")
