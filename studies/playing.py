# SPDX-License-Identifier: Apache-2.0
"""A clip played once over DDS to real nodes in one container, and what they said of each frame."""

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from PIL import Image as PillowImage
from std_srvs.srv import Trigger

from newfound_msgs.msg import Classification, GroundTruth, PlaceCategory
from newfound_runtime.testing import Harness, eventually
from newfound_sim.clip import Clip, ClipFrame, Truth

OUTPUTS = {
    "adaptive_classifier": (Classification, "classification"),
    "place_categorizer": (PlaceCategory, "place"),
}
CLIP_RATE = 10.0  # Hz that a clip of ours claims
AFTERGLOW = 3.0  # s that answers may come after the last frame
QUIET = 60.0  # s without a frame before the camera counts as dead


@dataclass
class Moment:
    """One frame: what is true, and what each node said."""

    truth: GroundTruth
    answers: dict[str, Any] = field(default_factory=dict)


def play(
    source: Path, nodes: Mapping[str, tuple[str, Mapping[str, Any]]], rate: float
) -> list[Moment]:
    """Every frame to which all nodes answered, in order.

    `nodes` are name: (executable, parameters). At a rate that a node cannot follow it drops
    frames, as it would on a robot.
    """
    harness = Harness()
    truths: dict[tuple[int, int], GroundTruth] = {}
    answers: dict[str, dict[tuple[int, int], Any]] = {name: {} for name in nodes}
    try:
        harness.client.create_subscription(
            GroundTruth, "/camera/ground_truth", _keep(truths), 1000
        )
        for name, (executable, _) in nodes.items():
            kind, topic = OUTPUTS[executable]
            harness.client.create_subscription(
                kind, f"/{name}/{topic}", _keep(answers[name]), 1000
            )
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "nodes.yaml"
            file.write_text(yaml.safe_dump(_parameters(source, nodes, rate)))
            arguments = ("--ros-args", "--params-file", str(file))
            harness.process("-m", "newfound_runtime.container", *arguments)
            _run(harness, list(nodes), truths)
    finally:
        harness.close()
    moments = [
        Moment(truth, {name: found[stamp] for name, found in answers.items()})
        for stamp, truth in truths.items()
        if all(stamp in found for found in answers.values())
    ]
    return sorted(moments, key=lambda moment: moment.truth.frame)


def make_clip(folder: Path, shown: Sequence[tuple[Path, Truth]]) -> Path:
    """A clip of JPEG files of one size, each with its truth, in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with PillowImage.open(shown[0][0]) as first:
        width, height = first.size
    for number, (path, _) in enumerate(shown):
        shutil.copy(path, folder / f"{number:05d}.jpg")
    frames = (ClipFrame(n / CLIP_RATE, f"{n:05d}.jpg", n) for n in range(len(shown)))
    matrix = (float(width), 0.0, width / 2, 0.0, float(width), height / 2, 0.0, 0.0, 1.0)
    truths = tuple(truth for _, truth in shown)
    Clip(CLIP_RATE, width, height, matrix, truths, tuple(frames)).save(folder, {})
    return folder


def _keep(where: dict[tuple[int, int], Any]):
    def take(message: Any) -> None:
        where[message.header.stamp.sec, message.header.stamp.nanosec] = message

    return take


def _parameters(source: Path, nodes: Mapping[str, tuple[str, Mapping]], rate: float) -> dict:
    camera = {"source": str(source), "rate": rate, "loop": False, "start_paused": True}
    entries = [f"{executable}:{name}" for name, (executable, _) in nodes.items()]
    values = {
        "/container": {"nodes": ["sim_camera:camera/sim_camera", *entries]},
        "/camera/sim_camera": camera,
    }
    for name, (_, chosen) in nodes.items():
        values[f"/{name}"] = {"image_topic": "/camera/image_raw", "threads": 1, **chosen}
    return {name: {"ros__parameters": chosen} for name, chosen in values.items()}


def _run(harness: Harness, names: list[str], truths: Mapping) -> None:
    """Wait for all nodes, let the camera play, and wait for the last frame."""
    for name in (*names, "camera/sim_camera"):
        harness.becomes_active(f"/{name}", timeout=600)  # a scenario is filmed first
    # An image that comes before the node has found its camera is lost.
    images = "/camera/image_raw"
    eventually(lambda: harness.client.count_subscribers(images) >= len(names), "subscribed")
    time.sleep(2.5)  # subscriptions settle on the camera's reliability once a second
    harness.call(Trigger, "/camera/sim_camera/restart", Trigger.Request())
    seen, since = -1, time.monotonic()
    while not any(truth.last for truth in list(truths.values())):
        if len(truths) != seen:
            seen, since = len(truths), time.monotonic()
        assert time.monotonic() - since < QUIET, "the camera stands still"
        time.sleep(0.1)
    time.sleep(AFTERGLOW)
