# SPDX-License-Identifier: Apache-2.0
"""Clips: a folder of pictures and `clip.json`, which says when each is shown and what is true.

A picture may be shown by many frames and a truth may hold for many: a scene in which nothing
happens takes no more room than a few pictures with different noise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from newfound_sim.errors import SimulationError
from newfound_sim.truth import Truth

FILE = "clip.json"
FORMAT = "newfound-clip-1"
Matrix = tuple[float, ...]  # 3x3, row by row


class ClipError(SimulationError):
    """A folder that is not a clip, or not a whole one."""


@dataclass(frozen=True)
class ClipFrame:
    """What is shown at one moment."""

    time: float  # s from the beginning
    image: str  # JPEG, relative to the clip's folder
    truth: int  # index into the clip's truths
    depth: str | None = None  # 16-bit PNG in millimetres, relative to the clip's folder


@dataclass(frozen=True)
class Clip:
    """A film with its truth."""

    rate: float  # frames per second
    width: int
    height: int
    intrinsics: Matrix  # K of ROS
    truths: tuple[Truth, ...]
    frames: tuple[ClipFrame, ...]

    def save(self, folder: Path, made_from: Mapping[str, Any]) -> None:
        """Write clip.json, which makes a folder of pictures a clip."""
        from newfound_sim.production import write_whole  # with the renderer: not for players

        document = {"format": FORMAT, "made_from": made_from, **asdict(self)}
        # One line per truth and per frame: the file can be read and compared.
        lines = []
        for key, value in document.items():
            many = key in ("truths", "frames")
            listed = ",\n  ".join(json.dumps(entry) for entry in value) if many else ""
            text = f"[\n  {listed}]" if many else json.dumps(value)
            lines.append(f"{json.dumps(key)}: {text}")
        write_whole(folder / FILE, ("{" + ",\n".join(lines) + "}\n").encode())


def load_clip(folder: Path) -> Clip:
    """Read and check a clip; raises ClipError."""
    path = folder / FILE
    if not path.is_file():
        what = "is no folder" if not folder.is_dir() else f"has no {FILE}"
        raise ClipError(f"{folder} is not a clip: it {what}. Was its rendering interrupted?")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ClipError(f"{path} is damaged: {error}. Render or copy the clip again.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
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
        frames=tuple(ClipFrame(**entry) for entry in document["frames"]),
    )


def _check(clip: Clip, folder: Path) -> None:
    if not clip.frames:
        raise ClipError(f"{folder} has no frames")
    if not (0 < clip.rate <= 1000 and 0 < clip.width <= 8192 and 0 < clip.height <= 8192):
        what = f"{clip.width}x{clip.height} at {clip.rate} Hz"
        raise ClipError(f"{folder / FILE} claims {what}, which cannot be")
    if not all(0 <= frame.truth < len(clip.truths) for frame in clip.frames):
        raise ClipError(f"{folder / FILE}: a frame refers to a truth that is not there")
    names = sorted({name for f in clip.frames for name in (f.image, f.depth) if name is not None})
    _check_names(names, folder)


def _check_names(names: Sequence[str], folder: Path) -> None:
    """Every file must be inside the folder and there."""
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise ClipError(f"{folder / FILE} refers to '{name}', outside of its folder")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ClipError(
            f"{folder} is not whole: {len(missing)} of {len(names)} files are missing, the first "
            f"is {missing[0]}. Render or copy the clip again."
        )
