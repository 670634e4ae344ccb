# SPDX-License-Identifier: Apache-2.0
"""Where the time of a detector's frame goes: five objects at 640x480, found by depth, two threads.

The shipped model of the bench on frames of the shipped clip, without ROS but for the message. Back
ends take turns, frame by frame. `share` is of the back end's frame, `ratio` is to `torch`. `right`
is the share of the objects in every fifth frame of the clip, at their true boxes, that are named
right or, if they are of no known class, called unknown. The ranges of the 8-bit integers come from
other frames. Target: 20 ms a frame.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
from rclpy.serialization import serialize_message
from std_msgs.msg import Header

from newfound_core.allocation import keep_freed_memory
from newfound_core.detection.backend_embedding import BackendEmbedder
from newfound_core.detection.crops import crops_of
from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector, DetectorConfig, label_crops
from newfound_core.detection.same_object import View
from newfound_core.inference import InferenceConfig
from newfound_nodes.open_world.frame_session import FrameResult
from newfound_nodes.open_world.messages import detections_message
from newfound_nodes.open_world.session import OpenWorldSession
from studies.bench_robot import Shot, clip_shots
from tests.bench.detector_cost import CLIP, make_session

OBJECTS, THREADS = 5, 2
CONFIGS = {
    "torch": InferenceConfig(threads=THREADS),
    "torch, channels_last": InferenceConfig(threads=THREADS, channels_last=True),
    "onnx": InferenceConfig("onnx", threads=THREADS),
    "onnx, int8": InferenceConfig("onnx", threads=THREADS, int8_images="crops of the clip"),
}


class Clock:
    """Seconds of each stage of each frame; a stage inside another is not counted twice."""

    def __init__(self) -> None:
        self.frames: list[dict[str, float]] = []

    def timed(self, stage: str, function: Callable, within: str = "") -> Callable:
        """The function, with its time noted as that of a stage."""

        def call(*arguments: object) -> object:
            began = time.perf_counter()
            result = function(*arguments)
            frame, passed = self.frames[-1], time.perf_counter() - began
            frame[stage] = frame.get(stage, 0.0) + passed
            if within:
                frame[within] = frame.get(within, 0.0) - passed
            return result

        return call


class TimedEmbedder:
    """Features of crops by a back end."""

    def __init__(self, embedder: BackendEmbedder, clock: Clock) -> None:
        prepare = embedder.inference.prepare
        self._prepare = clock.timed("resizing of crops", prepare, within="decision")
        self._run = clock.timed("network", embedder.run, within="decision")

    def __call__(self, crops: Sequence[np.ndarray]) -> torch.Tensor:
        return self._run(self._prepare(crops))

    stored = __call__


class Frames:
    """The detector behind one back end."""

    def __init__(self, session: OpenWorldSession, config: InferenceConfig) -> None:
        self._session, self._clock = session, Clock()
        self._knowledge = session.in_use.knowledge
        self._detector = Detector(DepthSegments())
        proposer = self._detector.proposer
        proposer.propose = self._clock.timed("proposals", proposer.propose, within="decision")
        self._embedder = BackendEmbedder(self._knowledge.loaded, config)
        self._timed = TimedEmbedder(self._embedder, self._clock)

    def process(self, shot: Shot, depth: np.ndarray, number: int) -> None:
        """All that happens to a frame between the camera's message and the answer."""
        clock, session = self._clock, self._session
        clock.frames.append({})
        view = View(number, "camera", 640, 480)
        detect = clock.timed("decision", self._detector.detect)
        found = detect(shot.rgb, depth, self._knowledge, self._timed)
        boxes = np.stack([d.box for d in found])
        rows = np.stack([d.embedding for d in found])
        tracks = clock.timed("tracks", session._tracker.update)(boxes, rows).tolist()
        update = clock.timed("unknown objects", session._unknowns.update)
        ids = update(view, found, tracks, session._tracker.tracks)
        result = FrameResult(session.in_use.version, found, tracks, ids, ids)
        clock.timed("message", lambda: serialize_message(detections_message(Header(), result)))()

    def right(self, shots: Sequence[Shot]) -> float:
        """Share of the objects that are named right, or are unknown and called so."""
        answers = []
        for shot in shots:
            known = [label if label in self._knowledge.labels else "" for label in shot.labels]
            crops = crops_of(shot.rgb, shot.boxes, MARGIN)
            found = label_crops(self._knowledge, crops, self._embedder)
            answers += [one == other for one, other in zip(found, known, strict=True)]
        return statistics.mean(answers)

    def median(self, stage: str) -> float:
        """Milliseconds of a stage, "" for the whole frame."""
        frames = self._clock.frames[WARM_UP:]
        return 1e3 * statistics.median(f[stage] if stage else sum(f.values()) for f in frames)


def write_crops(shots: Sequence[Shot], place: Path) -> str:
    """Images of the objects, for the ranges of the 8-bit integers."""
    crops = [crop for shot in shots for crop in crops_of(shot.rgb, shot.boxes, MARGIN)]
    for number, crop in enumerate(crops):
        cv2.imwrite(str(place / f"{number}.png"), cv2.cvtColor(crop, cv2.COLOR_RGB2BGR))
    return str(place)


STAGES = (
    "proposals", "resizing of crops", "network", "decision", "tracks", "unknown objects",
    "message",
)  # fmt: skip
WARM_UP = 5  # frames
MARGIN = DetectorConfig().margin


def run(quick: bool) -> list[dict]:
    keep_freed_memory()  # as the nodes do
    clip = clip_shots(CLIP)
    shots = [shot for shot in clip[::10] if len(shot.boxes) == OBJECTS][: 5 if quick else 20]
    depths = [shot.depth.astype(np.float32) * 1e-3 for shot in shots]
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as crops:
        images = write_crops(clip[3::10], Path(crops))
        session = make_session(Path(place))
        try:
            by_backend = {
                name: Frames(session, replace(c, int8_images=c.int8_images and images))
                for name, c in CONFIGS.items()
            }
            for number in range((2 if quick else 10) * len(shots)):
                turn = number % len(shots)
                for frames in by_backend.values():
                    frames.process(shots[turn], depths[turn], number)
        finally:
            session.close()
        right = {name: frames.right(clip[::5]) for name, frames in by_backend.items()}
    return [
        row(name, frames, stage, by_backend["torch"]) | {"right": "" if stage else right[name]}
        for name, frames in by_backend.items()
        for stage in (*STAGES, "")
    ]


def row(name: str, frames: Frames, stage: str, base: Frames) -> dict:
    return {
        "backend": name,
        "stage": stage or "**frame**",
        "ms": frames.median(stage),
        "share": frames.median(stage) / frames.median(""),
        "ratio": frames.median(stage) / base.median(stage),
        "target": "" if stage or name != "onnx" else "20 ms",
    }
