# SPDX-License-Identifier: Apache-2.0
"""How long the open-world detector takes for a frame, learning a class meanwhile or not.

The real node in a process of its own with the shipped model, 640x480 with depth, frames one after
another over DDS; the learning process beside it learns from crops of the clip. Target: a 95th
percentile of at most 2 x idle while learning.
"""

import statistics
import tempfile
import time
from pathlib import Path

import cv2
from sensor_msgs.msg import CompressedImage

from newfound_msgs.srv import AddUnknownClass
from studies.bench_robot import NODE, Robot, Shot, clip_shots
from tests.bench._timing import median_ms, percentile_ms
from tests.bench.detector_cost import CLIP, MODEL

PAUSE = 0.1  # s between two frames: a camera of at most 10 Hz


def run(quick: bool) -> list[dict]:
    shots, rounds = clip_shots(CLIP)[::10], (1 if quick else 3)
    idle: list[float] = []
    busy: list[float] = []
    learned: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        all_allowed = {"max_accuracy_loss": 1.0, "max_class_loss": 1.0}  # it is one thing
        robot = Robot(Path(place), checkpoint=str(MODEL), **all_allowed)
        try:
            for shot in shots[:10]:
                robot.look(shot)
            for number in range(rounds):
                idle += [timed(robot, shot) for shot in shots]
                found, seconds = while_learning(robot, shots, f"thing {number}")
                busy += found
                learned.append(seconds)
        finally:
            robot.close()
    return [
        row("idle", idle, idle, ""),
        row("while learning", busy, idle, "<= 2"),
        {"": "learning a class, s", "frames": rounds, "median ms": "", "p95 ms": "",
         "p95 ratio": statistics.median(learned), "target": "<= 120"},
    ]  # fmt: skip


def timed(robot: Robot, shot: Shot) -> float:
    """Seconds from image to detections."""
    time.sleep(PAUSE)
    began = time.perf_counter()
    robot.look(shot)
    return time.perf_counter() - began


def while_learning(robot: Robot, shots: list[Shot], label: str) -> tuple[list[float], float]:
    """Frames until a class is learned, and how long that took."""
    request = AddUnknownClass.Request(label=label, images=crops(shots))
    began, found = time.monotonic(), []
    added = robot.ros.call(AddUnknownClass, f"{NODE}/add_unknown_class", request)
    assert added.result == added.RESULT_OK, added.message

    def ended() -> bool:
        return any(s.job_id == added.job_id and s.state >= 10 for s in list(robot.learning))

    while not ended():
        found.append(timed(robot, shots[len(found) % len(shots)]))
    return found, time.monotonic() - began


def crops(shots: list[Shot]) -> list[CompressedImage]:
    """Views of one thing of the clip, as the detector would have gathered them."""
    found = []
    for shot in shots[:24]:
        left, top, right, bottom = shot.boxes[0].astype(int)
        pixels = cv2.cvtColor(shot.rgb[top:bottom, left:right], cv2.COLOR_RGB2BGR)
        data = cv2.imencode(".jpg", pixels)[1].tobytes()
        found.append(CompressedImage(format="jpeg", data=data))
    return found


def row(name: str, seconds: list[float], base: list[float], target: str) -> dict:
    return {
        "": name,
        "frames": len(seconds),
        "median ms": median_ms(seconds),
        "p95 ms": percentile_ms(seconds, 95),
        "p95 ratio": percentile_ms(seconds, 95) / percentile_ms(base, 95),
        "target": target,
    }
