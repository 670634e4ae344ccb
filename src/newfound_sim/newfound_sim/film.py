# SPDX-License-Identifier: Apache-2.0
"""Filming: a scenario becomes a clip, over processes, resumable at any moment."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from newfound_sim.camera import develop
from newfound_sim.clip import Clip, ClipError, ClipFrame, Matrix, load_clip
from newfound_sim.dataset_request import stream
from newfound_sim.exposing import Negative, expose
from newfound_sim.film_folder import WORK, finished, workplace
from newfound_sim.film_plan import Picture, Plan, plan_film
from newfound_sim.production import produce, write_jpeg, write_whole
from newfound_sim.rendering import View
from newfound_sim.scenario import Scenario
from newfound_sim.truth import Truth, objects_from_json


@dataclass(frozen=True)
class FilmOptions:
    """How a clip is stored."""

    takes: int = 4  # pictures, each with noise of its own, of a moment that lasts
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
    """One picture, or one shared rendering, to be made in any process."""

    scenario: Scenario
    plan: Plan
    options: FilmOptions
    out: Path
    number: int

    @property
    def negative(self) -> Path:
        """Where the rendering of this number is kept for several pictures."""
        return self.out / WORK / f"{self.number:05d}.npz"

    @property
    def image(self) -> Path:
        """Where the picture of this number is."""
        return self.out / image_name(self.number)


def film(scenario: Scenario, out: Path, options: FilmOptions, workers: int) -> Clip:
    """Make what is missing of a clip; a finished one is only read."""
    wanted = description(scenario, options)
    if not finished(out, wanted):
        plan = plan_film(scenario, options.takes)
        with workplace(out, wanted, files=len(plan.shared) + len(plan.pictures)):
            if not finished(out, wanted):
                _make(scenario, plan, options, out, workers)
    return load_clip(out)


def _make(scenario: Scenario, plan: Plan, options: FilmOptions, out: Path, workers: int) -> None:
    tasks = [Task(scenario, plan, options, out, n) for n in plan.shared]
    produce([t for t in tasks if not t.negative.exists()], make_negative, workers, "scenes")
    tasks = [Task(scenario, plan, options, out, n) for n in range(len(plan.pictures))]
    produce([t for t in tasks if not t.image.exists()], make_picture, workers, "pictures")
    bind(scenario, plan, options, out)


def make_negative(task: Task) -> None:
    """Render a shared exposure and keep it for its pictures."""
    _expose(task, task.number).save(task.negative)


def make_picture(task: Task) -> None:
    """Make one picture; it is written last, so that it never lacks its truth."""
    picture, filming = task.plan.pictures[task.number], task.scenario.filming
    negatives = [_find_negative(task, number) for number, _ in picture.mixture]
    light = np.zeros_like(negatives[0].light)
    for negative, (_, weight) in zip(negatives, picture.mixture, strict=True):
        light += np.float32(weight) * negative.light
    seed = int(stream(filming.seed, "picture", task.number).integers(2**31))
    rgb = develop(light, task.scenario.camera_model, seed)
    objects = json.dumps([asdict(seen) for seen in negatives[0].objects])
    write_whole(_objects(task.out, task.number), objects.encode())
    depth = task.out / depth_name(picture)
    if task.options.depth and not depth.exists():
        _, coded = cv2.imencode(".png", negatives[0].depth, [cv2.IMWRITE_PNG_COMPRESSION, 9])
        write_whole(depth, coded.tobytes())
    write_jpeg(task.image, rgb, task.options.quality)


def bind(scenario: Scenario, plan: Plan, options: FilmOptions, out: Path) -> None:
    """Write clip.json, which makes the clip complete."""
    truths: dict[Truth, int] = {}
    frames = []
    for number, shown in enumerate(plan.frames):
        time = number / scenario.filming.rate
        objects = objects_from_json(json.loads(_objects(out, shown).read_text()))
        truth = scenario.truth_at(time, objects)
        depth = depth_name(plan.pictures[shown]) if options.depth else None
        index = truths.setdefault(truth, len(truths))
        frames.append(ClipFrame(round(time, 6), image_name(shown), index, depth))
    f = scenario.filming
    clip = Clip(f.rate, f.width, f.height, intrinsics(scenario), tuple(truths), tuple(frames))
    clip.save(out, made_from=description(scenario, options))


def description(scenario: Scenario, options: FilmOptions) -> dict[str, Any]:
    """Everything that decides the pixels, as it is written beside them."""
    content = {"kind": type(scenario).__name__, **asdict(scenario), **asdict(options)}
    return dict(json.loads(json.dumps(content)))


def intrinsics(scenario: Scenario) -> Matrix:
    """The camera matrix K, the same for all frames."""
    filming, fov = scenario.filming, scenario.camera_model.fov_degrees
    view = View((0, 0, 0), (1, 0, 0), filming.width, filming.height, fov)
    return tuple(float(value) for value in view.intrinsics.ravel())


def image_name(number: int) -> str:
    """The file of a picture."""
    return f"images/{number:05d}.jpg"


def depth_name(picture: Picture) -> str:
    """The file of a picture's depth, which is the same for all its takes."""
    return f"depth/{picture.mixture[0][0]:05d}.png"


def _find_negative(task: Task, number: int) -> Negative:
    path = task.out / WORK / f"{number:05d}.npz"
    return Negative.load(path) if path.exists() else _expose(task, number)


def _expose(task: Task, number: int) -> Negative:
    seed = int(stream(task.scenario.filming.seed, "negative", number).integers(2**31))
    return expose(task.scenario, task.plan.exposures[number], seed)


def _objects(out: Path, number: int) -> Path:
    return out / WORK / f"{number:05d}.json"
