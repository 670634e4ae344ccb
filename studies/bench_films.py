# SPDX-License-Identifier: Apache-2.0
"""Which simulated objects are taught, and films of the bench in which a robot meets others.

The shipped models of the bench know `KNOWN`. Settings were chosen with `CHOICE` as unknown
things; results are reported for `HELD_OUT`, which nothing was trained on or chosen by.

A film is a folder in the format of `python -m newfound_sim generate detection`, its pictures in
the order of time. `python -m studies.bench_films FOLDER` makes the films of `HELD_OUT`.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from newfound_core.storage import write_bytes
from newfound_sim.annotations import coco_annotations, coco_dataset
from newfound_sim.arranging import arrange
from newfound_sim.lights import named
from newfound_sim.objects import CLASSES
from newfound_sim.production import millimetres, stream, write_depth, write_jpeg
from newfound_sim.workbench import Bench, CameraPose, PlacedObject, render_bench

KNOWN = (
    "claw_hammer", "mallet", "combination_pliers", "needle_nose_pliers", "flat_screwdriver",
    "stubby_screwdriver", "wrench", "scissors", "banana", "bottle", "can", "mug", "apple", "book",
    "fork", "clamp",
)  # fmt: skip
CHOICE = ("bowl", "funnel", "pear", "padlock", "paint_brush", "marker")
HELD_OUT = ("teapot", "tape_roll", "flashlight", "carrot", "ball", "light_bulb")
PER_FILM = 3  # new things on one table, beside as many known ones
WIDTH, HEIGHT, SAMPLES = 480, 360, 4


@dataclass(frozen=True)
class Arc:
    """The way of a camera around the table, looking at its middle."""

    frames: int
    around: tuple[float, float]  # degrees, from first to last; -90 is in front of the table
    up: tuple[float, float]  # degrees above the table
    distance: float  # m

    def poses(self) -> Iterator[CameraPose]:
        """Where the camera is in each frame."""
        middle = (0.0, 0.02, 0.0)
        for share in np.linspace(0, 1, self.frames):
            around, up = (np.radians(a + (b - a) * share) for a, b in (self.around, self.up))
            level = self.distance * np.cos(up)
            eye = (level * np.cos(around), level * np.sin(around), self.distance * np.sin(up))
            x, y, z = (float(a + b) for a, b in zip(eye, middle, strict=True))
            yield CameraPose((x, y, z), middle)


ARCS = {
    "meeting": Arc(32, (-190.0, 10.0), (48.0, 54.0), 0.64),
    "later": Arc(16, (-60.0, -120.0), (56.0, 46.0), 0.66),
    "other_light": Arc(24, (-30.0, -150.0), (44.0, 58.0), 0.68),
}


@dataclass(frozen=True)
class Films:
    """Films of the same new things: when they are met, and later, lying elsewhere."""

    meeting: tuple[Path, ...]
    later: tuple[Path, ...]  # in the second half the light has changed
    other_light: tuple[Path, ...]  # the table of `later` in that light, from elsewhere


def make_films(folder: Path, strange: tuple[str, ...]) -> Films:
    """Film what is missing; each table has a background of its own."""
    found: dict[str, list[Path]] = {occasion: [] for occasion in ARCS}
    for number, first in enumerate(range(0, len(strange), PER_FILM)):
        for occasion, films in found.items():
            films.append(folder / f"{occasion}_{number}")
            if not (films[-1] / "annotations.json").exists():
                _film(films[-1], occasion, number, strange[first : first + PER_FILM])
    return Films(**{occasion: tuple(films) for occasion, films in found.items()})


def _film(out: Path, occasion: str, number: int, new: tuple[str, ...]) -> None:
    truths = []
    for frame, (bench, pose) in enumerate(tqdm(_moments(occasion, number, new), out.name)):
        size = {"width": WIDTH, "height": HEIGHT}
        seen = render_bench(bench, "webcam", pose=pose, **size, samples=SAMPLES, seed=frame)
        name = f"images/{frame:06d}.jpg"
        write_depth(out / f"depth/{frame:06d}.png", millimetres(seen.depth))
        write_jpeg(out / name, seen.rgb)
        truths.append({"file_name": name, **size, "annotations": coco_annotations(seen)})
    write_bytes(out / "annotations.json", json.dumps(coco_dataset(CLASSES, truths)).encode())


def _moments(
    occasion: str, number: int, new: tuple[str, ...]
) -> Iterator[tuple[Bench, CameraPose]]:
    """The bench and the camera's place in each frame; the camera goes round."""
    background = ("brown", "white")[number % 2]
    table = "meeting" if occasion == "meeting" else "later"
    bench = Bench(_things(table, number, new), named("artificial"), background, number)
    changed = replace(bench, lighting=named("directed"))
    arc = ARCS[occasion]
    changes_at = {"meeting": arc.frames, "later": arc.frames // 2, "other_light": 0}[occasion]
    for frame, pose in enumerate(arc.poses()):
        yield bench if frame < changes_at else changed, pose


def _things(occasion: str, number: int, new: tuple[str, ...]) -> tuple[PlacedObject, ...]:
    """The new things, the same ones on both occasions, and any known ones; none overlap."""
    rng = stream("bench", occasion, number, *new)
    labels = [*new, *(str(label) for label in rng.choice(KNOWN, PER_FILM, replace=False))]
    seeds = [int(stream("bench", label).integers(2**31)) for label in new]
    seeds += [int(seed) for seed in rng.integers(2**31, size=PER_FILM)]
    while len(placed := arrange(rng, labels, seeds)) < len(labels):
        pass
    return placed


if __name__ == "__main__":
    make_films(Path(sys.argv[1]), HELD_OUT)
