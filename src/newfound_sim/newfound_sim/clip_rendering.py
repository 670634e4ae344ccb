# SPDX-License-Identifier: Apache-2.0
"""Render a scenario into a clip, over several processes, resumable at any moment."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from newfound_core.errors import DataError, LockedError, StorageError
from newfound_core.storage import FolderLock, read_json, write_bytes, write_json
from newfound_sim.camera import develop
from newfound_sim.clip import (
    FILE,
    Clip,
    ClipError,
    ClipFrame,
    Matrix,
    Truth,
    load_clip,
    objects_from_json,
)
from newfound_sim.keyframes import ClipImage, ClipPlan, LinearImage, plan_clip, render_keyframe
from newfound_sim.production import Workers, clean, stream, write_jpeg, write_mask
from newfound_sim.rendering import View
from newfound_sim.rooms.masks import CLASSES
from newfound_sim.scenario import RoomsScenario, Scenario

WORK = "unfinished"  # folder inside the clip's, for what only rendering needs
REQUEST = "request.json"
LOCK = ".lock"  # beside WORK: removing that must not race with a process that waits
POLL = 0.2  # s between two attempts to lock a folder that another process renders into


@dataclass(frozen=True)
class ClipOptions:
    """How a clip is stored."""

    takes: int = 4  # images of a static scene, each with its own sensor noise
    quality: int = 90  # of the JPEG files
    depth: bool = True  # whether to keep depth, as 16-bit PNG

    def __post_init__(self) -> None:
        if self.takes < 1 or not 1 <= self.quality <= 100:
            raise ClipError(
                f"takes must be at least 1 and quality in 1 to 100, got {self.takes} and "
                f"{self.quality}"
            )


@dataclass(frozen=True)
class Task:
    """One image, or one shared keyframe, to be made in any process."""

    scenario: Scenario
    plan: ClipPlan
    options: ClipOptions
    out: Path
    number: int

    @property
    def keyframe(self) -> Path:
        """Where the keyframe of this number is kept for several images."""
        return self.out / WORK / f"{self.number:05d}.npz"

    @property
    def image(self) -> Path:
        """Where the image of this number is."""
        return self.out / image_name(self.number)


def render_clip(scenario: Scenario, out: Path, options: ClipOptions, workers: int) -> Clip:
    """Render what is missing of a clip; a finished one is only read."""
    wanted = description(scenario, options)
    if not finished(out, wanted):
        plan = plan_clip(scenario, options.takes)
        with work_folder(out, wanted, files=len(plan.shared) + len(plan.images)):
            if not finished(out, wanted):
                _make(scenario, plan, options, out, workers)
    return load_clip(out)


def _make(
    scenario: Scenario, plan: ClipPlan, options: ClipOptions, out: Path, workers: int
) -> None:
    keyframes = [Task(scenario, plan, options, out, n) for n in plan.shared]
    images = [Task(scenario, plan, options, out, n) for n in range(len(plan.images))]
    with Workers(workers) as pool:
        missing = [task for task in keyframes if not task.keyframe.exists()]
        pool.run(missing, make_keyframe, "keyframes")
        pool.run([task for task in images if not task.image.exists()], make_image, "images")
    write_index(scenario, plan, options, out)


def make_keyframe(task: Task) -> None:
    """Render a shared keyframe and keep it for its images."""
    _render(task, task.number).save(task.keyframe)


def make_image(task: Task) -> None:
    """Make one image; it is written last, so that it never lacks its ground truth."""
    image, settings = task.plan.images[task.number], task.scenario.settings
    rendered = [_find_keyframe(task, number) for number, _ in image.mixture]
    light = np.zeros_like(rendered[0].light)
    for part, (_, weight) in zip(rendered, image.mixture, strict=True):
        light += np.float32(weight) * part.light
    seed = int(stream(settings.seed, "picture", task.number).integers(2**31))
    rgb = develop(light, task.scenario.camera_model, seed)
    objects = [asdict(seen) for seen in rendered[0].objects]
    write_json(_objects_file(task.out, task.number), {"objects": objects})
    depth = task.out / depth_name(image)
    if task.options.depth and not depth.exists():
        _, coded = cv2.imencode(".png", rendered[0].depth, [cv2.IMWRITE_PNG_COMPRESSION, 9])
        write_bytes(depth, coded.tobytes())
    if rendered[0].mask is not None:
        write_mask(task.out / mask_name(image), rendered[0].mask)
    write_jpeg(task.image, rgb, task.options.quality)


def write_index(scenario: Scenario, plan: ClipPlan, options: ClipOptions, out: Path) -> None:
    """Write clip.json, which makes the clip complete."""
    truths: dict[Truth, int] = {}
    frames = []
    for number, shown in enumerate(plan.frames):
        time_ = number / scenario.settings.rate
        objects = objects_from_json(read_json(_objects_file(out, shown))["objects"])
        truth = scenario.truth_at(time_, objects)
        depth = depth_name(plan.images[shown]) if options.depth else None
        mask = mask_name(plan.images[shown]) if isinstance(scenario, RoomsScenario) else None
        index = truths.setdefault(truth, len(truths))
        pose = camera_pose(scenario, time_)
        frames.append(ClipFrame(round(time_, 6), image_name(shown), index, depth, mask, pose))
    s = scenario.settings
    classes = CLASSES if isinstance(scenario, RoomsScenario) else ()
    k = intrinsics(scenario)
    clip = Clip(s.rate, s.width, s.height, k, tuple(truths), tuple(frames), classes)
    clip.save(out, made_from=description(scenario, options))


def description(scenario: Scenario, options: ClipOptions) -> dict[str, Any]:
    """Everything that decides the pixels, as it is written beside them."""
    content = {"kind": type(scenario).__name__, **asdict(scenario), **asdict(options)}
    return dict(json.loads(json.dumps(content)))


def intrinsics(scenario: Scenario) -> Matrix:
    """The camera matrix K, the same for all frames."""
    settings, fov = scenario.settings, scenario.camera_model.fov_degrees
    view = View((0, 0, 0), (1, 0, 0), settings.width, settings.height, fov)
    return tuple(float(value) for value in view.intrinsics.ravel())


def camera_pose(scenario: Scenario, time_: float) -> tuple[float, ...] | None:
    """How the camera stands by the table; None in rooms, of which each is a world of its own."""
    if isinstance(scenario, RoomsScenario):
        return None
    s = scenario.settings
    return scenario.pose_at(time_).view(scenario.camera_model, s.width, s.height).pose


def image_name(number: int) -> str:
    """The file of an image, relative to the clip's folder."""
    return f"images/{number:05d}.jpg"


def depth_name(image: ClipImage) -> str:
    """The file of an image's depth, which is the same for all its takes."""
    return f"depth/{image.mixture[0][0]:05d}.png"


def mask_name(image: ClipImage) -> str:
    """The file of an image's classes, which are the same for all its takes."""
    return f"masks/{image.mixture[0][0]:05d}.png"


def _find_keyframe(task: Task, number: int) -> LinearImage:
    path = task.out / WORK / f"{number:05d}.npz"
    return LinearImage.load(path) if path.exists() else _render(task, number)


def _render(task: Task, number: int) -> LinearImage:
    # The key "negative" is part of every clip's random numbers: another word, other pixels.
    seed = int(stream(task.scenario.settings.seed, "negative", number).integers(2**31))
    return render_keyframe(task.scenario, task.plan.keyframes[number], seed)


def _objects_file(out: Path, number: int) -> Path:
    return out / WORK / f"{number:05d}.json"


# The folder of an unfinished clip --------------------------------------------------------


def finished(out: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether the clip is there; refuses a folder that holds another one."""
    path = out / FILE
    if path.exists():
        _compare(path, wanted)
    return path.exists()


@contextlib.contextmanager
def work_folder(out: Path, wanted: Mapping[str, Any], files: int) -> Iterator[None]:
    """Let one process at a time render into a folder; the others wait for it."""
    lock = _lock(out)
    try:
        request = out / WORK / REQUEST
        if request.exists():
            _compare(request, wanted)
            clean(out)
        write_json(request, {"made_from": wanted, "files": files})
        yield
        shutil.rmtree(out / WORK)
        (out / LOCK).unlink()  # of a finished clip, whose files are not written again
    finally:
        lock.close()


def _lock(out: Path) -> FolderLock:
    waiting = False
    while True:
        try:
            return FolderLock(out, LOCK)
        except StorageError as error:
            raise ClipError(f"{out} cannot be written: {error}") from error
        except LockedError:
            if not waiting:
                print(f"waiting for another process that renders into {out}", flush=True)
            waiting = True
            time.sleep(POLL)


def progress(out: Path) -> tuple[int, int]:
    """How many keyframes and images of an unfinished clip are made, and how many there will be."""
    try:
        total = int(read_json(out / WORK / REQUEST)["files"])
    except (OSError, DataError, KeyError, ValueError):
        return 0, 0
    return len([*out.glob("images/*.jpg"), *out.glob(f"{WORK}/*.npz")]), total


def _compare(path: Path, wanted: Mapping[str, Any]) -> None:
    try:
        found = dict(read_json(path)["made_from"])
    except (OSError, DataError, KeyError, TypeError, ValueError) as error:
        raise ClipError(f"{path} is damaged: remove its folder and render again") from error
    other = sorted(k for k in {*found, *wanted} if found.get(k) != wanted.get(k))
    if other:
        raise ClipError(
            f"{path} belongs to another clip, with another {', '.join(other)}: choose another "
            "folder or remove this one"
        )
