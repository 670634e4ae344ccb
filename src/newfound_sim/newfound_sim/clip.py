# SPDX-License-Identifier: Apache-2.0
"""Clips: a folder of images and `clip.json`, with the time and ground truth of every frame.

Frames may share an image and a truth: a scene in which nothing happens takes no more room than
a few images with different noise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from newfound_core.errors import DataError
from newfound_core.storage import read_json, write_bytes
from newfound_sim.errors import SimulationError

Box = tuple[int, int, int, int]  # left, top, width, height in pixels
FILE = "clip.json"
FORMAT = "newfound-clip-1"
Matrix = tuple[float, ...]  # 3x3, row by row


@dataclass(frozen=True)
class SeenObject:
    """An object that an image shows."""

    instance: int  # the same number over a whole scenario, from 1
    label: str
    box: Box
    visible: float  # share of its outline that is seen, 0 to 1


@dataclass(frozen=True)
class Truth:
    """The ground truth of an image."""

    objects: tuple[SeenObject, ...] = ()
    place: str = ""
    domain: str = ""
    illumination: str = ""
    next_illumination: str = ""
    illumination_share: float = 0.0

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Truth:
        """Read what `dataclasses.asdict` gave; raises on any other form."""
        return Truth(
            objects=objects_from_json(document["objects"]),
            place=str(document["place"]),
            domain=str(document["domain"]),
            illumination=str(document["illumination"]),
            next_illumination=str(document["next_illumination"]),
            illumination_share=float(document["illumination_share"]),
        )


def objects_from_json(entries: Sequence[Mapping[str, Any]]) -> tuple[SeenObject, ...]:
    """Read a list of what `dataclasses.asdict` gave."""
    return tuple(_object_from_json(entry) for entry in entries)


def _object_from_json(entry: Mapping[str, Any]) -> SeenObject:
    left, top, width, height = map(int, entry["box"])
    instance, visible = int(entry["instance"]), float(entry["visible"])
    if min(left, top, width, height, instance) < 0:
        raise ValueError(f"box and instance must not be negative: {dict(entry)}")
    return SeenObject(instance, str(entry["label"]), (left, top, width, height), visible)


class ClipError(SimulationError):
    """A folder is not a clip, or an incomplete one."""


@dataclass(frozen=True)
class ClipFrame:
    """One frame: its time, files and ground truth."""

    time: float  # s from the beginning
    image: str  # JPEG, relative to the clip's folder
    truth: int  # index into the clip's truths
    depth: str | None = None  # 16-bit PNG in millimetres, relative to the clip's folder
    mask: str | None = None  # 8-bit PNG of numbers in the clip's classes, of rooms
    # Of the camera's optical frame in the world: place (m) and quaternion, x y z, x y z w.
    pose: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Clip:
    """A rendered sequence of frames with its ground truth."""

    rate: float  # frames per second
    width: int
    height: int
    intrinsics: Matrix  # K of ROS
    truths: tuple[Truth, ...]
    frames: tuple[ClipFrame, ...]
    classes: tuple[str, ...] = ()  # by number in the masks

    def save(self, folder: Path, made_from: Mapping[str, Any]) -> None:
        """Write clip.json, which makes a folder of images a clip."""
        document = {"format": FORMAT, "made_from": made_from, **asdict(self)}
        # One line per truth and per frame: the file can be read and compared.
        lines = []
        for key, value in document.items():
            many = key in ("truths", "frames")
            listed = ",\n  ".join(json.dumps(entry) for entry in value) if many else ""
            text = f"[\n  {listed}]" if many else json.dumps(value)
            lines.append(f"{json.dumps(key)}: {text}")
        write_bytes(folder / FILE, ("{" + ",\n".join(lines) + "}\n").encode())


def load_clip(folder: Path) -> Clip:
    """Read and check a clip; raises ClipError."""
    path = folder / FILE
    if not path.is_file():
        what = "is no folder" if not folder.is_dir() else f"has no {FILE}"
        raise ClipError(f"{folder} is not a clip: it {what}. Was its rendering interrupted?")
    try:
        document = read_json(path)
    except (OSError, DataError) as error:
        raise ClipError(f"{error}. Render or copy the clip again.") from error
    if document.get("format") != FORMAT:
        raise ClipError(f"{path} is not of the format {FORMAT}")
    try:
        clip = _clip(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ClipError(f"{path} does not describe a clip: {error!r}") from error
    _check(clip, folder)
    return clip


def _clip(document: Mapping[str, Any]) -> Clip:
    k = tuple(float(value) for value in document["intrinsics"])
    if len(k) != 9:
        raise ValueError(f"intrinsics has {len(k)} values, not 9")
    return Clip(
        rate=float(document["rate"]),
        width=int(document["width"]),
        height=int(document["height"]),
        intrinsics=k,
        truths=tuple(Truth.from_json(entry) for entry in document["truths"]),
        frames=tuple(_frame(entry) for entry in document["frames"]),
        classes=tuple(map(str, document.get("classes", ()))),
    )


def _frame(entry: Mapping[str, Any]) -> ClipFrame:
    frame = ClipFrame(**entry)
    if frame.pose is None:
        return frame
    pose = tuple(float(value) for value in frame.pose)
    if len(pose) != 7 or not abs(math.hypot(*pose[3:]) - 1) < 1e-3:
        raise ValueError(f"a pose is a place and a quaternion of length 1, not {frame.pose}")
    return replace(frame, pose=pose)


def _check(clip: Clip, folder: Path) -> None:
    if not clip.frames:
        raise ClipError(f"{folder} has no frames")
    if not (0 < clip.rate <= 1000 and 0 < clip.width <= 8192 and 0 < clip.height <= 8192):
        what = f"{clip.width}x{clip.height} at {clip.rate} Hz"
        raise ClipError(f"{folder / FILE} claims {what}, which cannot be")
    if not all(0 <= frame.truth < len(clip.truths) for frame in clip.frames):
        raise ClipError(f"{folder / FILE}: a frame refers to a truth that is not there")
    files = (name for f in clip.frames for name in (f.image, f.depth, f.mask))
    _check_names(sorted({name for name in files if name is not None}), folder)


def _check_names(names: Sequence[str], folder: Path) -> None:
    """Refuse files that are missing or outside the folder."""
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise ClipError(f"{folder / FILE} refers to '{name}', outside of its folder")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ClipError(
            f"{folder} is incomplete: {len(missing)} of {len(names)} files are missing, the first "
            f"is {missing[0]}. Render or copy the clip again."
        )
