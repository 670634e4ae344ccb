# SPDX-License-Identifier: Apache-2.0
"""Contact sheets: many captioned images in one file, for the docs and for a first check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from newfound_sim.arranging import arrange
from newfound_sim.clip import Truth
from newfound_sim.errors import SimulationError
from newfound_sim.generate import crop
from newfound_sim.lights import LightDrift, named
from newfound_sim.objects import CLASSES
from newfound_sim.production import write_jpeg
from newfound_sim.rooms.images import room_image, view_image
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES, LIGHTINGS
from newfound_sim.rooms.walk import walk
from newfound_sim.sources import ClipSource
from newfound_sim.workbench import DOMAINS, Bench, render_bench

CAPTION = 16  # pixels
FEW, LARGE, SMALL = 10, 128, 64  # up to a few columns, tiles are large
GREEN, WHITE = (80, 255, 80), (255, 255, 255)  # of boxes and text
COLUMNS = 2  # of a clip sheet
SHOWN = ("claw_hammer", "combination_pliers", "mug", "banana", "flat_screwdriver", "tape_roll")
SIZE = (192, 144)  # pixels of a room on a sheet


def contact_sheet(
    pictures: Sequence[np.ndarray], captions: Sequence[str], columns: int
) -> np.ndarray:
    """Lay RGB pictures of one size out in rows, each over its caption."""
    tiles = [_tile(p, c) for p, c in zip(pictures, captions, strict=True)]
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % columns)
    rows = [np.hstack(tiles[i : i + columns]) for i in range(0, len(tiles), columns)]
    return np.vstack(rows)


def _tile(picture: np.ndarray, caption: str) -> np.ndarray:
    strip = np.full((CAPTION, picture.shape[1], 3), 255, np.uint8)
    scale = min(0.42, 0.055 * picture.shape[1] / max(1, len(caption)))
    cv2.putText(
        strip,
        caption,
        (3, CAPTION - 5),
        cv2.FONT_HERSHEY_SIMPLEX,
        scale,
        (30, 30, 30),
        1,
        cv2.LINE_AA,
    )
    framed = np.vstack([picture, strip])
    return cv2.copyMakeBorder(framed, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=(255, 255, 255))


def sheet_of_folder(folder: Path) -> Path:
    """Write `contact_sheet.jpg`: a row for each domain, with the first picture of each class.

    A detection set has no classes but `images`: of these a few are shown.
    """
    pictures, captions = [], []
    domains = [d for d in sorted(folder.iterdir()) if d.is_dir()]
    rows = [_row(domain) for domain in domains]
    columns = max((len(row) for row in rows), default=0)
    size = LARGE if columns <= FEW else SMALL
    for row in rows:
        shown = [_read(path, size) for _, path in row]
        pictures += shown + [np.full_like(shown[0], 255)] * (columns - len(row)) if row else []
        captions += [caption for caption, _ in row] + [""] * (columns - len(row)) if row else []
    path = folder / "contact_sheet.jpg"
    if pictures:
        write_jpeg(path, contact_sheet(pictures, captions, columns), 85)
    return path


def _row(domain: Path) -> list[tuple[str, Path]]:
    """Captions and files: one of each class, or the first pictures of a detection set."""
    scenes = sorted((domain / "images").glob("*.jpg"))[:4]
    if scenes:
        return [(domain.name, path) for path in scenes]
    kinds = [kind for kind in sorted(domain.iterdir()) if kind.is_dir()]
    return [(kind.name, min(kind.glob("*.jpg"))) for kind in kinds if any(kind.glob("*.jpg"))]


def _read(path: Path, height: int) -> np.ndarray:
    picture = cv2.imread(str(path))[..., ::-1]
    width = round(picture.shape[1] * height / picture.shape[0])
    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)


def clip_sheet(folder: Path, times: Sequence[float], width: int = 480) -> np.ndarray:
    """The frames at these times, in seconds, in rows of two."""
    source = ClipSource(folder)
    pictures = []
    for time in times:
        number = round(time * source.rate)
        if not 0 <= number < len(source):
            raise SimulationError(f"{folder} has no frame at {time:g} s")
        picture = annotated(source.rgb(number), source.truth(number), f"{time:g} s")
        height = round(width * picture.shape[0] / picture.shape[1])
        pictures.append(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA))
    pictures += [np.zeros_like(pictures[0])] * (-len(pictures) % COLUMNS)
    rows = [np.hstack(pictures[i : i + COLUMNS]) for i in range(0, len(pictures), COLUMNS)]
    return np.vstack(rows)


def annotated(picture: np.ndarray, truth: Truth, title: str) -> np.ndarray:
    """A copy of a picture with boxes, labels, place and light."""
    drawn = np.ascontiguousarray(picture).copy()
    size = drawn.shape[1] / 1150
    for seen in truth.objects:
        left, top, width, height = seen.box
        cv2.rectangle(drawn, (left, top), (left + width, top + height), GREEN, 2)
        _write(drawn, seen.label, (left, max(top - 6, 10)), size, GREEN)
    words = [title, truth.place, truth.domain]
    if truth.illumination_share:
        words.append(
            f"{truth.illumination} > {truth.next_illumination} {truth.illumination_share:.2f}"
        )
    _write(drawn, "  ".join(filter(None, words)), (8, drawn.shape[0] - 10), size, WHITE)
    return drawn


def _write(
    picture: np.ndarray, text: str, at: tuple[int, int], size: float, colour: tuple[int, int, int]
) -> None:
    cv2.putText(picture, text, at, cv2.FONT_HERSHEY_SIMPLEX, size, colour, 1, cv2.LINE_AA)


def classes_sheet(
    classes: Sequence[str] = CLASSES, each: int = 3, size: int = 128, samples: int = 24
) -> np.ndarray:
    """A few instances of every class side by side, in three domains."""
    conditions = ["cloudy_webcam_white", "artificial_webcam_white", "cloudy_webcam_brown"]
    pictures, captions = [], []
    for label in classes:
        for number in range(each):
            domain = conditions[number % len(conditions)]
            pictures.append(crop(domain, label, number, size=size, samples=samples, seed=7).rgb)
            captions.append(label.replace("_", " ") if number == 0 else "")
    return contact_sheet(pictures, captions, columns=3 * each)


def domains_sheet(width: int = 320, height: int = 240, samples: int = 32) -> np.ndarray:
    """The same bench in the twelve domains."""
    objects = arrange(np.random.default_rng(4), SHOWN, range(len(SHOWN)))
    pictures = []
    for domain in DOMAINS.values():
        bench = Bench(objects, named(domain.illumination), domain.background)
        frame = render_bench(
            bench, domain.camera, width=width, height=height, samples=samples, seed=1
        )
        pictures.append(frame.rgb)
    return contact_sheet(pictures, [name.replace("_", ", ") for name in DOMAINS], columns=4)


def drift_sheet(width: int = 240, height: int = 180, samples: int = 24) -> np.ndarray:
    """The same bench while the light drifts through a minute."""
    objects = arrange(np.random.default_rng(4), SHOWN, range(len(SHOWN)))
    drift, times = LightDrift(), np.arange(0, 60, 7.5)
    pictures = [
        render_bench(
            Bench(objects, drift.at(t)), width=width, height=height, samples=samples, seed=1
        ).rgb
        for t in times
    ]
    return contact_sheet(pictures, [f"{t:.1f} s" for t in times], columns=4)


def rooms_sheet(
    each: int = 2, size: tuple[int, int] = SIZE, samples: int = 8, seed: int = 10
) -> np.ndarray:
    """A few rooms of every category in every building, under alternating light."""
    pictures, captions = [], []
    for building in BUILDINGS:
        for row in range(each):
            for category in CATEGORIES:
                lighting = ("cloudy", "sunny", "night")[row % 3]
                frame = room_image(building, lighting, category, seed + row, size, samples=samples)
                pictures.append(frame.rgb)
                captions.append(f"{building} {lighting}: {category.replace('_', ' ')}")
    return contact_sheet(pictures, captions, columns=len(CATEGORIES))


def lightings_sheet(size: tuple[int, int] = SIZE, samples: int = 8, seed: int = 21) -> np.ndarray:
    """One room of each building under the three lightings."""
    pictures, captions = [], []
    shown = ("living_room", "kitchen", "bedroom", "office")
    for lighting in LIGHTINGS:
        for building, category in zip(BUILDINGS, shown, strict=True):
            frame = room_image(building, lighting, category, seed, size, samples=samples)
            pictures.append(frame.rgb)
            captions.append(f"{building} {lighting}")
    return contact_sheet(pictures, captions, columns=len(BUILDINGS))


def walk_sheet(
    building: str = "townhouse",
    frames: int = 5,
    size: tuple[int, int] = (160, 120),
    samples: int = 8,
) -> np.ndarray:
    """Frames of a walk through a building, a row for each room."""
    pictures, captions = [], []
    for view, category, room in walk(building, "sunny", 3, frames, size):
        pictures.append(view_image(room, "sunny", view, samples=samples).rgb)
        captions.append(category.replace("_", " "))
    return contact_sheet(pictures, captions, columns=2 * frames)
