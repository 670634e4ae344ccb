# SPDX-License-Identifier: Apache-2.0
"""A camera walks over two tables, and the object memory remembers: what, where, and how often.

    python -m studies.memory_walk --out runs/memory_walk

Two simulated tables with six things each stand 3 m apart. The camera circles each of them and
walks from one to the other: real `open_world_detector` and `object_memory` nodes, the memory in
a process of its own, poses of the simulator, the depth noise of a Kinect. Between
the first and the second round one thing is taken away from the first table and one is brought to
the second; the memory is killed (SIGKILL) in the middle of the second round, and started again.

Writes `result.json`: for each round `things` on the tables, `remembered` (present with a
probability of at least 0.5), `found` (things with a memory within 5 cm), `duplicates` (further
memories within 5 cm of a thing), `named` (found things of known classes with the right label) of
`known`, `unnamed` (found things of other classes without a label) of `unknown`; of each walk
also `errors` (m), `missed` things, `false` memories (label, nearest thing, its distance);
over all walks `taken_remembered`, `brought_found`, `lost` (memories that a kill lost). Pictures
are kept in `frames`, finished walks in `walks`: a second run continues there.
"""

import argparse
import array
import dataclasses
import json
import math
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped
from scipy.optimize import linear_sum_assignment
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from newfound_core.checkpoint import load_checkpoint
from newfound_msgs.msg import OpenWorldDetections, RememberedObject
from newfound_msgs.srv import ListObjects
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_runtime.shipped_models import find_checkpoint
from newfound_runtime.testing import Harness, eventually
from newfound_sim.arranging import arrange
from newfound_sim.camera import develop
from newfound_sim.camera_messages import pose as camera_pose
from newfound_sim.lights import Panel, Point, named
from newfound_sim.objects import CLASSES, build
from newfound_sim.rendering import Scene
from newfound_sim.workbench import CameraPose, PlacedObject, camera_model, table
from studies.jittered_stills import DEPTH_LOST, DEPTH_NOISE

APART, THINGS = 3.0, 6  # m between the tables; things on each
NEAR, PRESENT = 0.05, 0.5
RATE, LOST_AFTER = 2, 60.0  # Hz; s without an answer, then a frame is sent again
MEMORY = "/object_memory"
CAMERA, MODEL = camera_model("kinect"), "sim_bench_bdoc"


@dataclass(frozen=True)
class Walk:
    """How much the camera sees of each table and of the way between them, in frames."""

    size: tuple[int, int] = (320, 240)
    around: int = 12
    between: int = 3


@dataclass(frozen=True)
class Picture:
    """A frame of the walk."""

    rgb: np.ndarray
    depth: np.ndarray  # m, with noise
    pose: tuple[float, ...]  # of the optical frame in the map


def _nanoseconds(stamp: Time) -> int:
    return stamp.sec * 10**9 + stamp.nanosec


# The world.


def furnish(rng: np.random.Generator) -> tuple[list[PlacedObject], PlacedObject]:
    """Things on the two tables, and one more on the second that comes later."""
    kinds = rng.permutation(CLASSES)[: 2 * THINGS + 1].tolist()
    first = arrange(rng, kinds[:THINGS], rng.integers(100, size=THINGS).tolist())
    second = arrange(rng, kinds[THINGS:], rng.integers(100, size=THINGS + 1).tolist())
    moved = [dataclasses.replace(each, x=each.x + APART) for each in second]
    return [*first, *moved[:-1]], moved[-1]


def scene_of(things: list[PlacedObject], seed: int) -> Scene:
    """Both tables with a lamp over each."""
    shift = np.eye(4)
    shift[0, 3] = APART
    parts = list(table("white", seed))
    parts.append(dataclasses.replace(table("brown", seed)[0], pose=shift))
    for number, thing in enumerate(things, start=1):
        parts += thing.parts(number)
    lights = named("artificial").lights()
    for lamp in [each for each in lights if isinstance(each, Panel)]:
        (x, y, z), (u, v, w) = lamp.centre, lamp.target
        lights.append(
            dataclasses.replace(lamp, centre=(x + APART, y, z), target=(u + APART, v, w))
        )
    return Scene(parts, lights)


def path(walk: Walk) -> Iterator[CameraPose]:
    """Around the first table, over to the second, around it, and back."""
    arcs = [_arc(x, walk.around) for x in (0.0, APART)]
    for here, there in (arcs, arcs[::-1]):
        yield from here
        for share in np.linspace(0, 1, walk.between + 2)[1:-1]:
            ends = zip(
                (here[-1].eye, here[-1].target), (there[0].eye, there[0].target), strict=True
            )
            eye, target = (
                tuple(((1 - share) * np.array(a) + share * np.array(b)).tolist()) for a, b in ends
            )
            yield CameraPose(eye, target)


def _between(one: Point, other: Point, share: float) -> Point:
    x, y, z = ((1 - share) * np.array(one) + share * np.array(other)).tolist()
    return x, y, z


def _arc(x: float, frames: int) -> list[CameraPose]:
    """Half a circle around a table, nearer and farther, looking a little to the sides."""
    found = []
    for share in np.linspace(0, 1, frames):
        around, up = np.radians(-170 + 160 * share), np.radians(50 + 8 * np.sin(9 * share))
        distance, aside = 0.72 + 0.08 * np.cos(7 * share), 0.06 * np.sin(11 * share)
        level = distance * math.cos(up)
        eye = (x + level * math.cos(around), level * math.sin(around), distance * math.sin(up))
        found.append(CameraPose(tuple(map(float, eye)), (float(x + aside), 0.0, 0.0)))
    return found


def pictures(things: list[PlacedObject], walk: Walk, seed: int, cache: Path) -> Iterator[Picture]:
    """What the camera sees; rendered once."""
    cache.mkdir(parents=True, exist_ok=True)
    rng, scene = np.random.default_rng(seed), None
    for number, pose in enumerate(path(walk)):
        view, file = pose.view(CAMERA, *walk.size), cache / f"{number:04d}.npz"
        if not file.exists():
            scene = scene or scene_of(things, seed % 8)
            frame = scene.render(view, samples=6, seed=seed + number, bounces=3)
            part = file.with_suffix(".part.npz")
            np.savez(part, rgb=develop(frame.rgb, CAMERA, seed + number), depth=frame.depth)
            part.rename(file)
        with np.load(file) as stored:
            rgb, depth = stored["rgb"], np.where(np.isfinite(stored["depth"]), stored["depth"], 0)
        noise = rng.standard_normal(depth.shape, np.float32)
        depth = depth + np.float32(DEPTH_NOISE) * depth**2 * noise
        depth[rng.random(depth.shape, np.float32) < DEPTH_LOST] = 0
        yield Picture(rgb, depth.astype(np.float32), view.pose)


# The robot.


class Robot:
    """A camera, a detector in this process, and an object memory in another one."""

    def __init__(self, folder: Path, walk: Walk) -> None:
        self.ros, self.stamp = Harness(), 10**9
        self._database = folder / "objects.db"
        focal = 0.5 * walk.size[0] / math.tan(math.radians(CAMERA.fov_degrees) / 2)
        centre = [(side - 1) / 2 for side in walk.size]
        self._info = CameraInfo(width=walk.size[0], height=walk.size[1])
        self._info.k = [focal, 0.0, centre[0], 0.0, focal, centre[1], 0.0, 0.0, 1.0]
        self.ros.started(
            OpenWorldDetector,
            checkpoint=str(find_checkpoint(MODEL)),
            knowledge_base=str(folder / "base"),
            image_topic="/image",
            depth_topic="/depth",
            camera_info_topic="/camera_info",
            positions=True,
            target_frame="map",
            camera_pose_topic="/camera_pose",
            depth_timeout=10.0,
        )
        self._image, self._depth = (self.ros.publisher(Image, t) for t in ("/image", "/depth"))
        self._camera_info = self.ros.publisher(CameraInfo, "/camera_info")
        self._camera_pose = self.ros.publisher(PoseStamped, "/camera_pose")
        self._detections = self.ros.collect(OpenWorldDetections, "/open_world_detector/detections")
        self.start_memory()

    def start_memory(self) -> None:
        """A new process; the database is what is left of the one before."""
        code = "from newfound_runtime.executable import main; main('object_memory')"
        self._memory = self.ros.process("-c", code, "--ros-args", "-p",
                                        f"database:={self._database}")  # fmt: skip
        self.ros.becomes_active(MEMORY)
        for publisher in (self._depth, self._camera_info):
            self.ros.connected(publisher, 2)
        self.ros.connected(self._image, 2)
        self.ros.connected(self._camera_pose)

    def kill_memory(self) -> None:
        """SIGKILL."""
        os.kill(self._memory.pid, signal.SIGKILL)
        self._memory.wait()

    def see(self, picture: Picture) -> None:
        """Publish a frame, and wait until the detector has answered."""
        self.stamp += 10**9 // RATE
        header = Header(frame_id="camera")
        header.stamp = Time(sec=self.stamp // 10**9, nanosec=self.stamp % 10**9)
        self._info.header = header
        pose = camera_pose(Header(stamp=header.stamp, frame_id="map"), picture.pose)
        sent = -math.inf

        def answered() -> bool:
            nonlocal sent
            if time.monotonic() - sent > LOST_AFTER:
                sent = time.monotonic()
                self._camera_pose.publish(pose)
                self._camera_info.publish(self._info)
                self._depth.publish(_image(header, "32FC1", picture.depth))
                self._image.publish(_image(header, "rgb8", picture.rgb))
            return any(_nanoseconds(m.header.stamp) == self.stamp for m in self._detections[-2:])

        eventually(answered, "detections of a frame", timeout=10 * LOST_AFTER)

    def remembered(self, present: float = PRESENT) -> list[RememberedObject]:
        """What the memory lists, as soon as it has heard of the last frame with things in it."""
        seen = [
            m for m in self._detections if any(d.has_position and _sure(d) for d in m.detections)
        ]
        last = _nanoseconds(seen[-1].header.stamp)

        def listed() -> list[RememberedObject] | None:
            request = ListObjects.Request(limit=1000)
            found = self.ros.call(ListObjects, f"{MEMORY}/list_objects", request).objects
            newest = max((_nanoseconds(each.last_seen) for each in found), default=0)
            return found if newest >= last else None

        found = eventually(listed, "the memory has heard of the last frame")
        return [each for each in found if each.presence >= present]

    def close(self) -> None:
        """End everything."""
        self.ros.close()


def _sure(found: Any) -> bool:
    return not found.label or found.score >= 0.5


def _image(header: Header, encoding: str, pixels: np.ndarray) -> Image:
    height, width = pixels.shape[:2]
    step = pixels.nbytes // height
    message = Image(header=header, height=height, width=width, encoding=encoding, step=step)
    message.data = array.array("B", np.ascontiguousarray(pixels).tobytes())
    return message


# What came of it.


def middle(thing: PlacedObject) -> np.ndarray:
    """Of the box around a thing, in the map."""
    return thing.pose()[:3] @ np.append(build(thing.label, thing.seed).middle, 1.0)


def place(each: RememberedObject) -> np.ndarray:
    """Of a memory, in the map."""
    return np.array([each.pose.position.x, each.pose.position.y, each.pose.position.z])


def score(
    things: list[PlacedObject], remembered: list[RememberedObject], known: set[str]
) -> dict[str, Any]:
    """Compare what is remembered with what is there."""
    truth = np.array([middle(each) for each in things]).reshape(-1, 3)
    places = np.array([place(each) for each in remembered]).reshape(-1, 3)
    far = np.linalg.norm(truth[:, None] - places[None], axis=2)
    pairs = [
        (row, column)
        for row, column in zip(*linear_sum_assignment(np.minimum(far, 10 * NEAR)), strict=True)
        if far[row, column] <= NEAR
    ]
    matched = {column for _, column in pairs}
    others = [column for column in range(len(remembered)) if column not in matched]
    named = [(things[r].label, remembered[c].label) for r, c in pairs]
    return {
        "things": len(things),
        "remembered": len(remembered),
        "found": len(pairs),
        "duplicates": sum(bool((far[:, column] <= NEAR).any()) for column in others),
        "known": sum(label in known for label, _ in named),
        "named": sum(label in known and label == said for label, said in named),
        "unknown": sum(label not in known for label, _ in named),
        "unnamed": sum(label not in known and not said for label, said in named),
        "errors": [round(float(far[r, c]), 4) for r, c in pairs],
        "missed": [each.label for n, each in enumerate(things) if n not in {r for r, _ in pairs}],
        "false": [
            [
                remembered[c].label,
                things[int(far[:, c].argmin())].label,
                round(float(far[:, c].min()), 3),
            ]
            for c in others
        ],
    }


def at(thing: PlacedObject, remembered: list[RememberedObject]) -> bool:
    """Whether something is remembered where a thing is."""
    return any(np.linalg.norm(place(each) - middle(thing)) <= NEAR for each in remembered)


def walk_once(seed: int, walk: Walk, frames: Path) -> dict[str, Any]:
    """Two rounds over two tables."""
    rng = np.random.default_rng(seed)
    first, brought = furnish(rng)
    taken = first[int(rng.integers(THINGS))]
    second = [each for each in first if each is not taken] + [brought]
    known = set(load_checkpoint(find_checkpoint(MODEL)).metadata.labels)
    with tempfile.TemporaryDirectory() as folder:
        robot = Robot(Path(folder), walk)
        try:
            for picture in pictures(first, walk, seed, frames / f"{seed}_1"):
                robot.see(picture)
            rounds = [score(first, robot.remembered(), known)]
            film = list(pictures(second, walk, seed + 10**6, frames / f"{seed}_2"))
            for number, picture in enumerate(film):
                robot.see(picture)
                if number == len(film) // 2:  # on the way back from the first table
                    before = {each.id for each in robot.remembered(0.0)}
                    robot.kill_memory()
                    robot.start_memory()
                    left = {each.id for each in robot.remembered(0.0)}
            after = robot.remembered()
            rounds.append(score(second, after, known))
        finally:
            robot.close()
    return {
        "seed": seed,
        "rounds": rounds,
        "taken": taken.label,
        "taken_remembered": at(taken, after),
        "brought": brought.label,
        "brought_found": at(brought, after),
        "lost": len(before - left),
        "kept": len(before & left),
    }


def summary(walks: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums over all walks."""
    rounds = []
    for number in range(2):
        each = [walk["rounds"][number] for walk in walks]
        row = {key: sum(r[key] for r in each) for key in each[0] if isinstance(each[0][key], int)}
        errors = [error for r in each for error in r["errors"]]
        row["recall"] = row["found"] / row["things"]
        row["precision"] = row["found"] / max(1, row["remembered"])
        row["median_error"] = float(np.median(errors)) if errors else None
        rounds.append(row)
    sums = {key: sum(walk[key] for walk in walks) for key in
            ("taken_remembered", "brought_found", "lost", "kept")}  # fmt: skip
    return {"walks": len(walks), "rounds": rounds, **sums}


def main() -> None:
    """Print the table, write result.json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--walks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=100, help="of the first walk")
    parser.add_argument("--quick", action="store_true", help="a few small frames of each table")
    options = parser.parse_args()
    walk = Walk((160, 120), 6, 1) if options.quick else Walk()
    done = options.out / "walks"
    done.mkdir(parents=True, exist_ok=True)
    walks = []
    for seed in range(options.seed, options.seed + options.walks):
        file = done / f"{seed}.json"
        if not file.exists():
            found = walk_once(seed, walk, options.out / "frames")
            file.write_text(json.dumps(found, indent=2) + "\n")
        walks.append(json.loads(file.read_text()))
        print(json.dumps(walks[-1]), flush=True)
    result = summary(walks)
    (options.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    for number, row in enumerate(result["rounds"], start=1):
        print(
            f"| {number} | {row['things']} | {row['recall']:.1%} | {row['precision']:.1%} | "
            f"{row['duplicates']} | {row['named']} of {row['known']} | "
            f"{row['unnamed']} of {row['unknown']} | {1e3 * (row['median_error'] or 0):.0f} |"
        )
    print({key: result[key] for key in ("taken_remembered", "brought_found", "lost", "kept")})


if __name__ == "__main__":
    main()
