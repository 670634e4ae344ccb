# SPDX-License-Identifier: Apache-2.0
"""The simulator: pictures rendered per second, and what playing a clip costs.

Rendering: 128 px on two processes; starting them is not counted. Playing: `sim_camera` in a
process of its own shows a 640x480 clip at 30 Hz; `cpu_percent` is of one core, by the clock of
the process. Target: a few per cent while images are listened to.
"""

import tempfile
import time
from pathlib import Path

import psutil
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from newfound_msgs.msg import GroundTruth
from newfound_runtime.testing import ACTIVE, Harness, eventually
from newfound_sim.generate import CropRequest, generate_crops
from newfound_sim.objects import CLASSES

WORKERS, RATE = 2, 30.0
TOPICS = {
    "image_raw": Image,
    "camera_info": CameraInfo,
    "ground_truth": GroundTruth,
    "image_raw/compressed": CompressedImage,
    "depth": Image,
}


def row(what: str, **numbers: float) -> dict:
    columns = ("images_per_s", "frames_per_s", "cpu_percent", "memory_mb")
    return {"what": what, **{column: numbers.get(column, "") for column in columns}}


def rendering(quick: bool) -> dict:
    """Pictures per second between a short and a long run, both of which start the processes."""
    counts, seconds = (1, 3) if quick else (2, 12), []
    for images in counts:
        request = CropRequest(("artificial_webcam_white",), CLASSES, images)
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            generate_crops(Path(folder), request, WORKERS)
            seconds.append(time.perf_counter() - begin)
    made = (counts[1] - counts[0]) * len(CLASSES)
    name = f"render 128 px, {WORKERS} processes"
    return row(name, images_per_s=made / (seconds[1] - seconds[0]))


def playing(harness: Harness, topics: list[str], seconds: float, memory_mb: int = 256) -> dict:
    """Processor time of the camera while these topics are listened to."""
    parameters = [f"rate:={RATE}", f"memory_mb:={memory_mb}"]
    arguments = [part for p in parameters for part in ("-p", p)]
    run = "from newfound_runtime.executable import main; main('sim_camera')"
    process = harness.process("-c", run, "--ros-args", *arguments)
    received = [0]

    def take(_: object) -> None:
        received[0] += 1

    # Raw bytes: what the benchmark does with a message must not slow the camera down.
    subscriptions = [
        harness.client.create_subscription(TOPICS[t], f"/{t}", take, 10, raw=True) for t in topics
    ]
    eventually(lambda: harness.state("/sim_camera") == ACTIVE)
    time.sleep(1.5 * seconds)  # the clip's first round, in which every picture is decoded once
    watched = psutil.Process(process.pid)
    before, count, begin = watched.cpu_times(), received[0], time.perf_counter()
    time.sleep(seconds)
    after, passed = watched.cpu_times(), time.perf_counter() - begin
    used = after.user + after.system - before.user - before.system
    resident = watched.memory_info().rss / 1e6
    for subscription in subscriptions:
        harness.client.destroy_subscription(subscription)
    harness.processes.remove(process)
    process.kill()
    process.wait()
    what = f"play 640x480 at {RATE:g} Hz, " + (" + ".join(topics) or "nobody listens")
    what += "" if memory_mb else ", every frame decoded anew"
    rate = (received[0] - count) / passed / max(1, len(topics))
    return row(what, frames_per_s=rate, cpu_percent=100 * used / passed, memory_mb=resident)


def run(quick: bool) -> list[dict]:
    rows = [rendering(quick)]
    seconds = 8.0 if quick else 30.0
    cases = [
        ([], 256),
        (["image_raw"], 256),
        (["image_raw", "camera_info", "ground_truth"], 256),
        (["image_raw/compressed"], 256),
        (list(TOPICS), 256),
        (["image_raw"], 0),
    ]
    for topics, memory in cases:
        harness = Harness()
        try:
            rows.append(playing(harness, topics, seconds, memory))
        finally:
            harness.close()
    return rows
