# SPDX-License-Identifier: Apache-2.0
"""How long the open-world detector takes for a frame, with five browsers watching it or none.

The real detector with the shipped model and the console, each in a process of its own, 640x480
with depth at 10 Hz at most; five WebSocket clients in a further process receive images and
detections as the page does. They come and go in turns. Target: a median of at most 1.1 x that
without them.
"""

import select
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.up import page_command
from studies.bench_robot import NODE, Robot, Shot, clip_shots
from tests import ROOT
from tests.bench._timing import median_ms, percentile_ms
from tests.bench.detector_cost import CLIP, MODEL
from tests.bench.detector_while_learning import timed

BROWSERS, BLOCK = 5, 15  # frames of a turn
PORT = 8465


def run(quick: bool) -> list[dict]:
    shots, rounds = clip_shots(CLIP)[::10][:BLOCK], (2 if quick else 12)
    alone: list[float] = []
    watched: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        robot = Robot(Path(place), checkpoint=str(MODEL))
        robot.ros.process(*page_command(PORT)[1:])
        robot.ros.appears("/console")
        try:
            for shot in shots:
                robot.look(shot)
            for _ in range(rounds):
                alone += [timed(robot, shot) for shot in shots]
                watched += with_browsers(robot, shots)
        finally:
            robot.close()
    return [
        row("nobody watches", alone, alone, ""),
        row("five browsers", watched, alone, "<= 1.1"),
    ]


def with_browsers(robot: Robot, shots: list[Shot]) -> list[float]:
    """A turn while browsers watch."""
    command = [sys.executable, "-m", "tests.bench._browsers", str(PORT), NODE, str(BROWSERS)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as browsers:
        try:
            while not _ready(browsers):
                robot.look(shots[0])  # they watch once they have seen something
            return [timed(robot, shot) for shot in shots]
        finally:
            browsers.kill()


def _ready(browsers: subprocess.Popen) -> bool:
    assert browsers.poll() is None, "the browsers have ended"
    found, _, _ = select.select([browsers.stdout], [], [], 0.05)
    return bool(found) and "watching" in browsers.stdout.readline()


def row(name: str, seconds: list[float], base: list[float], target: str) -> dict:
    return {
        "": name,
        "frames": len(seconds),
        "median ms": median_ms(seconds),
        "ratio": median_ms(seconds) / median_ms(base),
        "p95 ms": percentile_ms(seconds, 95),
        "target": target,
    }
