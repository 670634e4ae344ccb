# SPDX-License-Identifier: Apache-2.0
"""One knowledge base for two cameras: questions asked about a bench, and who knows the answers.

    python -m studies.two_cameras

Benches with five things each, all unknown to `models/blank`, are rendered from two sides, 120
degrees apart. Each camera sees frames that shake a little, with the noise of a depth camera. Then
every question is answered with the true label, and both cameras look again. Rows: each camera has
a knowledge base of its own; the second follows the first; the same, and both know where they
stand. A question is an unknown object that is announced.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newfound_core.detection.boxes import iou
from newfound_core.detection.camera_rays import Calibration
from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector
from newfound_core.detection.positions import ObjectLocator
from newfound_core.detection.proposals import CameraView
from newfound_core.detection.same_object import View
from newfound_core.detection.unknown_objects import UnknownObject, UnknownState
from newfound_core.learning.job import LearningOptions
from newfound_nodes.open_world.following import FollowingSession
from newfound_nodes.open_world.frame_session import FrameResult, FrameSession
from newfound_nodes.open_world.session import OpenWorldSession, SessionConfig
from newfound_runtime.shipped_models import find_checkpoint
from newfound_runtime.testing import eventually
from newfound_sim.arranging import arrange, bench_in
from newfound_sim.objects import CLASSES
from newfound_sim.workbench import DOMAINS, CameraPose, camera_model, render_bench
from studies.jittered_stills import Still, jittered

SIZE, FRAMES, THINGS, APART = (320, 240), 24, 5, 120
ROWS = ("own knowledge", "shared", "shared, with positions")


@dataclass(frozen=True)
class Camera:
    """What one camera sees of a bench."""

    name: str
    still: Still
    labels: list[str]  # of the boxes
    to_map: np.ndarray  # 4x4
    calibration: Calibration


@dataclass
class NoEvents:
    """Nobody listens."""

    def __post_init__(self) -> None:
        self.knowledge_changed = self.unknown_changed = self.job_changed = lambda _: None
        self.storage_failed = print


def look(rng: np.random.Generator, kinds: list[str]) -> list[Camera]:
    """One bench from two sides."""
    things = arrange(rng, kinds, [int(rng.integers(100)) for _ in kinds])
    domain = DOMAINS["artificial_kinect_white"]
    bench, model, first = (
        bench_in(domain, things, rng),
        camera_model("kinect"),
        rng.uniform(0, 360),
    )
    found = []
    for number in range(2):
        around, up = np.radians(first + APART * number), np.radians(50)
        level = 0.66 * np.cos(up)
        eye = (level * np.cos(around), level * np.sin(around), 0.66 * np.sin(up))
        pose = CameraPose(tuple(map(float, eye)), (0.0, 0.0, 0.0))
        frame = render_bench(
            bench, model, pose=pose, width=SIZE[0], height=SIZE[1], seed=int(rng.integers(1000))
        )
        view, boxes = pose.view(model, *SIZE), frame.boxes()
        focal = view.intrinsics[0, 0]
        found.append(
            Camera(
                f"camera{number}",
                Still(frame.rgb, frame.depth, np.array([*boxes.values()], np.float32)),
                [things[instance - 1].label for instance in boxes],
                np.linalg.inv(view.extrinsics),
                Calibration(focal / SIZE[0], focal / SIZE[1], 0.5, 0.5),
            )
        )
    return found


class Watcher:
    """A session before a camera."""

    def __init__(self, session: FrameSession, detector: Detector) -> None:
        self.session, self.detector = session, detector
        self.stamp = 0

    def watch(
        self, camera: Camera, seed: int, *, positions: bool
    ) -> tuple[FrameResult, np.ndarray]:
        """All frames; the last result, and its boxes of things."""
        rng = np.random.default_rng(seed)
        located = ObjectLocator(camera.calibration)
        for _ in range(FRAMES):
            self.stamp += 10**8
            rgb, depth, boxes = jittered(camera.still, rng)
            self.detector.locator = located if positions else None
            view = View(self.stamp, camera.name, *SIZE)
            result = self.session.process(rgb, depth, view)
            for found, own in zip(result.detections, result.own_ids, strict=True):
                if found.position is not None and own:
                    point = camera.to_map[:3] @ np.append(found.position.centre, 1.0)
                    self.session.note_position(own, "map", point.tolist())
        self.session.tick()
        return result, boxes


def detector(camera: Camera) -> Detector:
    """As a node with that camera makes it."""
    calibration, aspect = camera.calibration, SIZE[1] / SIZE[0]
    view = CameraView(calibration.focal_x, calibration.focal_y * aspect)
    return Detector(DepthSegments(camera=view))


def followers(config: SessionConfig, root: Path, cameras: list[Camera]) -> list[Watcher]:
    """Two detectors that share a knowledge base."""
    made = [detector(camera) for camera in cameras]
    front = OpenWorldSession(config, made[0], NoEvents())

    def send(entry: UnknownObject) -> None:
        found = front.report("rear", "1", entry)
        state = found.state if found else UnknownState.EXPIRED
        rear.answered(entry.id, entry.sightings, found.id if found else "", state)

    rear = FollowingSession(config, root / "rear", made[1], NoEvents(), send=send)
    return [Watcher(front, made[0]), Watcher(rear, made[1])]


def label_of(camera: Camera, boxes: np.ndarray, box: np.ndarray) -> str:
    """The thing that a detection is of; empty if it is none."""
    overlap = iou(box[None].astype(np.float32), boxes)[0]
    return camera.labels[int(overlap.argmax())] if overlap.max() >= 0.5 else ""


def teach(watchers: list[Watcher], cameras: list[Camera], seen: list) -> None:
    """Answer every question, in every knowledge base."""
    options = LearningOptions(max_accuracy_loss=1.0, max_class_loss=1.0)
    for watcher in watchers:
        if not isinstance(session := watcher.session, OpenWorldSession):
            continue
        answers = {}
        for camera, (result, boxes) in zip(cameras, seen, strict=True):
            for found, unknown_id in zip(result.detections, result.unknown_ids, strict=True):
                if unknown_id and (label := label_of(camera, boxes, found.box)):
                    answers.setdefault(unknown_id, label)
        for entry in session.unknowns():
            label = answers.get(entry.id)
            if label and len(entry.crops) > 1 and label not in session.in_use.knowledge.labels:
                job, _ = session.learn(label, entry.id, lambda: ({}, ""), options)
                eventually(lambda j=job: session.jobs.status(j).state.final, timeout=60)
    newest = watchers[0].session.in_use.version
    if not isinstance(watchers[1].session, OpenWorldSession):
        eventually(lambda: watchers[1].session.in_use.version == newest, timeout=30)


def trial(row: str, cameras: list[Camera], seed: int, count: Callable[[str, int], None]) -> None:
    """One bench in one row of the table."""
    positions = "positions" in row
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        configs = [
            SessionConfig(root / name, find_checkpoint("blank"), learn_in_process=0)
            for name in ("front", "rear")
        ]
        if row == ROWS[0]:
            made = [detector(camera) for camera in cameras]
            watchers = [
                Watcher(OpenWorldSession(config, each, NoEvents()), each)
                for config, each in zip(configs, made, strict=True)
            ]
        else:
            watchers = followers(configs[0], root, cameras)
        for again in range(2):  # the follower has its answers after the first round
            seen = [
                watcher.watch(camera, seed + again, positions=positions)
                for watcher, camera in zip(watchers, cameras, strict=True)
            ]
        owners = [w.session for w in watchers if isinstance(w.session, OpenWorldSession)]
        count("questions", sum(len(session.unknowns()) for session in owners))
        teach(watchers, cameras, seen)
        for watcher, camera in zip(watchers, cameras, strict=True):
            result, boxes = watcher.watch(camera, seed + 9, positions=positions)
            for found in result.detections:
                if label := label_of(camera, boxes, found.box):
                    count("found", 1)
                    count("recognised", int(found.label == label))
        for watcher in watchers:
            watcher.session.close()


def main() -> None:
    """Print the table, write result.json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--benches", type=int, default=12)
    parser.add_argument("--seed", type=int, default=500)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    totals = {row: dict.fromkeys(("questions", "found", "recognised"), 0) for row in ROWS}
    things = 0
    for number in range(options.benches):
        rng = np.random.default_rng(options.seed + number)
        cameras = look(rng, [str(kind) for kind in rng.choice(CLASSES, THINGS, replace=False)])
        things += len({label for camera in cameras for label in camera.labels})
        for row in ROWS:

            def count(name: str, by: int, row: str = row) -> None:
                totals[row][name] += by

            trial(row, cameras, options.seed + number, count)
        print(f"{number + 1} of {options.benches}: {things} things, {totals}", flush=True)
    for row, found in totals.items():
        share = 100 * found["recognised"] / max(1, found["found"])
        print(f"| {row} | {found['questions']} | {share:.1f} % of {found['found']} |")
    if options.out:
        options.out.write_text(json.dumps({"things": things, "rows": totals}, indent=2))


if __name__ == "__main__":
    main()
