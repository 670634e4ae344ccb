# SPDX-License-Identifier: Apache-2.0
"""A class of pixels taught to a running segmenter in a building that it was not trained in.

    generate="python -m newfound_sim generate segments --domains cottage --size 192 --samples 4"
    $generate --out data/baths --classes bathroom --images 8 --views 2 --seed 5
    $generate --out data/others --classes bedroom corridor kitchen living_room office \\
        --images 1 --views 1 --seed 5
    python -m studies.learn_segment --data data/rooms/val --lesson data/baths data/others \\
        --label bathtub

`data/rooms` is made as in docs/segmentation.md; `val` is a building that models/rooms_segments was
not trained in, and is tested on. The lesson shows other rooms of that building. Frames of 320x240
go through the node before, while and after it learns. Writes a JSON and prints it; times depend on
what else the machine does.

With `--travel` the class goes to a second robot as a package; it is tested in the same way. The
lesson may then show another building than the one that is tested in.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image as PillowImage
from rclpy.action import ActionClient
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from newfound_core.segmentation.label_image import mapping, resized_labels
from newfound_core.segmentation.metrics import Confusion
from newfound_core.segmentation.samples import LabelledImage
from newfound_core.storage import read_json
from newfound_msgs.action import LearnSegment
from newfound_msgs.msg import LearningStatus
from newfound_msgs.srv import ExportClass, ImportPackage
from newfound_runtime.images import rgb_message
from newfound_runtime.testing import Harness, eventually

ROOT = Path(__file__).resolve().parent.parent
NODE, SIZE = "/segmenter", (320, 240)
RESEND = 10.0  # s without a mask, after which a frame is sent again
LEAST_SHARE = 0.01  # of an image that the class takes, to count as shown
RUN = "from newfound_runtime.executable import main; raise SystemExit(main('segmenter'))"


class Pictures:
    """One split of simulated rooms, labelled by names."""

    def __init__(self, folder: Path) -> None:
        self.classes: list[str] = read_json(folder / "classes.json")["classes"]
        self.paths = sorted((folder / "images").glob("*.jpg"))

    def read(self, path: Path, labels: Sequence[str]) -> LabelledImage:
        """An image in the numbers of these labels; what has none is background."""
        with PillowImage.open(path) as image:
            rgb = np.array(image.convert("RGB"))
        with PillowImage.open(path.parent.parent / "labels" / f"{path.stem}.png") as image:
            numbers = np.array(image)
        return LabelledImage(rgb, mapping(self.classes, labels)[numbers], path.stem)


def chosen(folders: Sequence[Path], label: str, count: int, negatives: int) -> list[LabelledImage]:
    """Images with masks of one class; so many of them do not show it."""
    shown, without = [], []
    for pictures in map(Pictures, folders):
        for path in pictures.paths:
            picture = pictures.read(path, ("background", label))
            share = (picture.labels == 1).mean()
            if share >= LEAST_SHARE:
                shown.append(picture)
            elif not share:
                without.append(picture)
    generator = np.random.default_rng(0)
    few = [without[number] for number in generator.permutation(len(without))[:negatives]]
    order = generator.permutation(len(shown))[: count - len(few)]
    return [*(shown[number] for number in order), *few]


class Robot:
    """A segmenter in a process of its own, and frames for it."""

    def __init__(self, checkpoint: Path, root: Path) -> None:
        self.harness = Harness()
        self._masks: list[Any] = []
        self.harness.client.create_subscription(Image, f"{NODE}/mask", self._masks.append, 10)
        self._images = self.harness.publisher(Image, "/image")
        values: dict[str, Any] = {"checkpoint": checkpoint, "knowledge_base": root / "base"}
        values["signed_packages_only"] = False  # how they are signed: docs/fleet.md
        options = [o for name, value in values.items() for o in ("-p", f"{name}:={value}")]
        self.harness.process("-c", RUN, "--ros-args", *options)
        self.harness.becomes_active(NODE)
        self.harness.connected(self._images)
        self._number = 0
        self.lost = 0  # frames that had to be sent again

    def mask(self, rgb: np.ndarray) -> tuple[np.ndarray, float]:
        """The mask of a frame, and the seconds until it was there."""
        self._number += 1
        message = rgb_message(Header(), np.ascontiguousarray(cv2.resize(rgb, SIZE)))
        message.header.stamp.sec = self._number
        began = last = time.monotonic()
        self._images.publish(message)

        def answer() -> Any:
            nonlocal last
            if time.monotonic() - last > RESEND:  # best effort: a busy machine loses some
                self._images.publish(message)
                last, self.lost = time.monotonic(), self.lost + 1
            return next((m for m in self._masks if m.header.stamp.sec == self._number), None)

        found = eventually(answer, "a mask", 120.0)
        seconds = time.monotonic() - began
        self._masks.clear()
        return np.frombuffer(found.data, np.uint8).reshape(SIZE[::-1]), seconds

    def teach(self, label: str, pictures: Sequence[LabelledImage]) -> Any:
        """Send the goal; returns the future of its result."""
        client = ActionClient(self.harness.client, LearnSegment, f"{NODE}/learn_segment")
        assert client.wait_for_server(60.0)
        goal = LearnSegment.Goal(label=label)
        goal.images = [_encoded(cv2.cvtColor(p.rgb, cv2.COLOR_RGB2BGR)) for p in pictures]
        goal.masks = [_encoded(p.labels) for p in pictures]
        sent = client.send_goal_async(goal)
        handle = eventually(lambda: sent.done() and sent.result(), "an answer")
        assert handle.accepted, "the goal was rejected; see the log of the node"
        return handle.get_result_async()

    def give(self, label: str) -> bytes:
        """A class as a package."""
        request = ExportClass.Request(label=label)
        answer = self.harness.call(ExportClass, f"{NODE}/export_class", request)
        assert answer.result == ExportClass.Response.RESULT_OK, answer.message
        return bytes(answer.package)

    def take(self, package: bytes) -> bool:
        """Import a class; whether it was learned."""
        request = ImportPackage.Request(package=package)
        told = self.harness.collect(LearningStatus, f"{NODE}/learning")
        answer = self.harness.call(ImportPackage, f"{NODE}/import_package", request)
        assert answer.result == ImportPackage.Response.RESULT_OK, answer.message
        done = LearningStatus.STATE_DONE
        state = eventually(lambda: next((t.state for t in told if t.state >= done), 0), "", 900.0)
        return state == done


def _encoded(pixels: np.ndarray) -> CompressedImage:
    return CompressedImage(format="png", data=cv2.imencode(".png", pixels)[1].tobytes())


@contextmanager
def running(checkpoint: Path, root: Path) -> Iterator[Robot]:
    """A robot, ended with the block."""
    robot = Robot(checkpoint, root)
    try:
        yield robot
    finally:
        robot.harness.close()


def tested(
    robot: Robot, pictures: Pictures, labels: Sequence[str]
) -> tuple[dict[str, float], list[float]]:
    """IoU of each class, and times of the frames."""
    confusion, times = Confusion(len(labels)), []
    for path in pictures.paths:
        picture = pictures.read(path, labels)
        mask, seconds = robot.mask(picture.rgb)
        confusion.add(resized_labels(picture.labels, SIZE), mask)
        times.append(seconds)
    found = confusion.iou()
    return {n: float(v) for n, v in zip(labels, found, strict=True) if not np.isnan(v)}, times


def study(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Everything that is reported."""
    site = Pictures(options.data)
    labels: list[str] = read_json(options.checkpoint / "checkpoint.json")["labels"]
    lesson = chosen(options.lesson, options.label, options.images, options.negatives)
    with running(options.checkpoint, root) as robot:
        before, idle = tested(robot, site, labels)
        began, meanwhile = time.monotonic(), []
        result = robot.teach(options.label, lesson)
        while not result.done():
            meanwhile.append(robot.mask(lesson[len(meanwhile) % len(lesson)].rgb)[1])
            time.sleep(0.2)
        seconds, answer = time.monotonic() - began, result.result().result
        learned = answer.result == LearnSegment.Result.RESULT_OK
        after, _ = tested(robot, site, [*labels, options.label] if learned else labels)
        package = robot.give(options.label) if options.travel and learned else b""
    travelled = study_travel(options, root, site, labels, package) if package else {}
    known = [name for name in before if name != "background"]
    return {
        "label": options.label,
        "images": len(lesson),
        "learned": learned,
        "message": answer.message,
        "seconds": round(seconds, 1),
        "known before": float(np.mean([before[name] for name in known])),
        "known after": float(np.mean([after[name] for name in known])),
        "new": after.get(options.label),
        "found of known pixels, as the node measured": [
            answer.accuracy_before, answer.accuracy_after
        ],
        "frame ms": 1e3 * statistics.median(idle),
        "frame ms while learning": 1e3 * statistics.median(meanwhile),
        "frames while learning": len(meanwhile),
        "frames sent again": robot.lost,
        "IoU before": before,
        "IoU after": after,
        **travelled,
    }  # fmt: skip


def study_travel(
    options: argparse.Namespace, root: Path, site: Pictures, labels: Sequence[str], package: bytes
) -> dict[str, Any]:
    """What a second robot knows once it has imported the class."""
    with running(options.checkpoint, root / "second") as robot:
        learned = robot.take(package)
        after, _ = tested(robot, site, [*labels, options.label] if learned else labels)
    known = [after[name] for name in labels[1:] if name in after]
    return {
        "package kB": len(package) // 1000,
        "imported": learned,
        "known after the import": float(np.mean(known)),
        "new after the import": after.get(options.label),
        "IoU after the import": after,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models/rooms_segments")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--lesson", type=Path, nargs="+", required=True)
    parser.add_argument("--label", required=True)
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--negatives", type=int, default=8, help="of them without the class")
    parser.add_argument("--travel", action="store_true", help="give it to a second robot")
    parser.add_argument("--out", type=Path, default=Path("learn_segment.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = study(options, Path(folder))
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    for name, value in found.items():
        if not isinstance(value, dict):
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
