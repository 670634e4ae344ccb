# SPDX-License-Identifier: Apache-2.0
"""A robot at the simulated bench: the real detector in its own process, a camera over DDS."""

import array
import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import yaml
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from newfound_core.detection.crops import crops_of
from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector, DetectorConfig
from newfound_core.detection.embedding import PlainEmbedder
from newfound_core.detection.light_shift import LightShift, moved_knowledge
from newfound_core.detection.same_object import View
from newfound_core.detection.unknown_store import UnknownsConfig
from newfound_core.knowledge.contents import Knowledge, read_knowledge
from newfound_core.learning.job import LearningOptions
from newfound_msgs.msg import LearningStatus, OpenWorldDetections, UnknownObject
from newfound_msgs.srv import AddUnknownClass
from newfound_nodes.knowledge.messages import learning_message
from newfound_nodes.open_world.light import network_digest
from newfound_nodes.open_world.messages import detections_message
from newfound_nodes.open_world.services import usable_images
from newfound_nodes.open_world.session import OpenWorldSession, SessionConfig
from newfound_runtime.testing import TIMEOUT, Harness, eventually
from newfound_sim.clip import load_clip
from newfound_training.detector.coco import read_depth, read_pictures, read_rgb
from newfound_training.detector.measures import Scene
from studies.inside_learner import learn_inside

NODE = "/open_world_detector"
CROP_GAP = 1  # frame: those of the films are far apart
FULLY_SEEN = 0.5  # share of an object that must be visible for it to count


@dataclass(frozen=True)
class Shot:
    """One frame of the camera and what is in it."""

    rgb: np.ndarray
    depth: np.ndarray  # uint16 millimetres
    boxes: np.ndarray
    labels: tuple[str, ...]


def clip_shots(folder: Path) -> list[Shot]:
    """The frames of a clip."""
    clip, shots = load_clip(folder), []
    for frame in clip.frames:
        rgb = cv2.cvtColor(cv2.imread(str(folder / frame.image)), cv2.COLOR_BGR2RGB)
        depth = cv2.imread(str(folder / str(frame.depth)), cv2.IMREAD_UNCHANGED)
        seen = [o for o in clip.truths[frame.truth].objects if o.visible >= FULLY_SEEN]
        boxes = np.array([o.box for o in seen], np.float32).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        shots.append(Shot(rgb, depth, boxes, tuple(o.label for o in seen)))
    return shots


def scene_shots(folder: Path) -> list[Shot]:
    """Single pictures of `python -m newfound_sim generate detection`."""
    return [
        Shot(read_rgb(p), np.rint(read_depth(p) * 1e3).astype(np.uint16), p.boxes, p.labels)
        for p in read_pictures(folder)
    ]


class Robot:
    """The node, its camera, and everything that it says."""

    def __init__(self, folder: Path, **parameters: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.base = folder / "knowledge"
        chosen = {
            "knowledge_base": str(self.base),
            "image_topic": "/camera/image_raw",
            "image_reliability": "reliable",
            "depth_topic": "/camera/depth",
            "depth_timeout": 5.0,
            "proposer": "depth",
            "crop_gap": CROP_GAP,
        } | parameters
        file = folder / "parameters.yaml"
        file.write_text(yaml.safe_dump({NODE: {"ros__parameters": chosen}}))
        self.ros = Harness()
        self.detections: list[OpenWorldDetections] = []
        self._arrived = threading.Event()
        self.ros.receive(OpenWorldDetections, f"{NODE}/detections", self._take)
        self.unknowns = self.ros.collect(UnknownObject, f"{NODE}/unknowns")
        self.learning = self.ros.collect(LearningStatus, f"{NODE}/learning")
        self._image = self.ros.publisher(Image, "/camera/image_raw")
        self._depth = self.ros.publisher(Image, "/camera/depth")
        run = "from newfound_runtime.executable import main; main('open_world_detector')"
        command = ("-c", run, "--ros-args", "--params-file")
        self.process = self.ros.process(*command, str(file))
        self.ros.becomes_active(NODE)
        for publisher in (self._image, self._depth):
            self.ros.connected(publisher)
        self._number = 0

    def look(self, shot: Shot) -> OpenWorldDetections:
        """Show a frame; what was detected in it."""
        self._number += 1
        header = Header(frame_id="camera")
        header.stamp.sec = self._number
        self._arrived.clear()
        self._depth.publish(_image(header, "16UC1", shot.depth))
        self._image.publish(_image(header, "rgb8", shot.rgb))
        assert self._arrived.wait(TIMEOUT), f"no detections of frame {self._number}"
        return self.detections[-1]

    def _take(self, message: OpenWorldDetections) -> None:
        self.detections.append(message)
        if message.header.stamp.sec == self._number:
            self._arrived.set()

    def learn(self, request: AddUnknownClass.Request, timeout: float = 900.0) -> LearningStatus:
        """Have a thing learned; how it ended."""
        added = self.ros.call(AddUnknownClass, f"{NODE}/add_unknown_class", request)
        assert added.result == added.RESULT_OK, added.message
        return eventually(
            lambda: next(
                (s for s in list(self.learning) if s.job_id == added.job_id and s.state >= 10),
                None,
            ),
            f"end of learning {request.label}",
            timeout,
        )

    def close(self) -> None:
        self.ros.close()


class RobotWithoutRos:
    """The same without nodes, DDS and a process for learning: where the machine is busy."""

    def __init__(
        self, folder: Path, checkpoint: str, *, adapt: bool = False, **options: Any
    ) -> None:
        learn_inside()
        self.base = folder / "knowledge"
        self._options = LearningOptions(**options)
        unknowns = UnknownsConfig(crop_gap=CROP_GAP)
        config = SessionConfig(self.base, Path(checkpoint), unknowns=unknowns, adapt=adapt)
        self._session = OpenWorldSession(config, Detector(DepthSegments()), NoEvents())
        self._number = 0

    def look(self, shot: Shot) -> OpenWorldDetections:
        """Show a frame; what was detected in it."""
        self._number += 1
        height, width = shot.rgb.shape[:2]
        view = View(self._number * 10**9, "camera", width, height)
        result = self._session.process(shot.rgb, shot.depth.astype(np.float32) * 1e-3, view)
        return detections_message(Header(), result)

    def learn(self, request: AddUnknownClass.Request) -> LearningStatus:
        """Have a thing learned; how it ended."""
        job, _ = self._session.learn(
            request.label,
            request.unknown_id,
            lambda: usable_images(request.images),
            self._options,
        )
        ended = eventually(
            lambda: (s := self._session.jobs.status(job)) and s.state.final and s,
            request.label,
            timeout=3600,
        )
        return learning_message(ended, Header().stamp)

    def close(self) -> None:
        self._session.close()


def said(shot: Shot, message: OpenWorldDetections) -> Scene:
    """A frame and what the node said of it, to be measured."""
    found = message.detections
    regions = [d.region for d in found]
    boxes = [
        [r.x_offset, r.y_offset, r.x_offset + r.width, r.y_offset + r.height] for r in regions
    ]
    return Scene(
        shot.boxes,
        shot.labels,
        np.array(boxes, np.float32).reshape(-1, 4),
        tuple(d.label for d in found),
        tuple(d.score for d in found),
    )


class CachedFeatures:
    """Features of crops that were seen before, while the network is the same."""

    def __init__(self) -> None:
        self._found: dict[bytes, torch.Tensor] = {}

    def of(self, knowledge: Knowledge) -> "CachedEmbedder":
        """What embeds the crops of the knowledge's network."""
        return CachedEmbedder(PlainEmbedder(knowledge.loaded), network_digest(knowledge), self)

    def get(self, embedder: PlainEmbedder, key: str, crop: np.ndarray) -> torch.Tensor:
        """The features [1, D] of a crop."""
        name = hashlib.sha256(key.encode() + crop.tobytes()).digest()
        if name not in self._found:
            self._found[name] = embedder([crop])
        return self._found[name]


@dataclass(frozen=True)
class CachedEmbedder:
    """An embedder that looks up what it has seen before."""

    embedder: PlainEmbedder
    network: str
    cache: CachedFeatures

    def __call__(self, crops: Sequence[np.ndarray]) -> torch.Tensor:
        return torch.cat([self.cache.get(self.embedder, self.network, crop) for crop in crops])

    stored = __call__


@dataclass
class Judged:
    """What the node would say of frames with the knowledge that it uses now, in their order.

    It is not shown them: it would gather views of unknown things from them. With `shift` learned
    classes follow the light, as they would in the node.
    """

    base: Path
    cache: CachedFeatures
    shift: LightShift | None = None

    def __post_init__(self) -> None:
        self._knowledge = self._served = read_knowledge(self.base / "current")
        self._embedder, self._detector = self.cache.of(self._knowledge), Detector(DepthSegments())

    @property
    def dimension(self) -> int:
        """Of the embedding."""
        return self._knowledge.model.head.dimension

    def scenes(self, shots: Iterable[Shot]) -> list[Scene]:
        """Frames and what is said of them."""
        return [self._look(shot) for shot in shots]

    def _look(self, shot: Shot) -> Scene:
        depth = shot.depth.astype(np.float32) * 1e-3
        found = self._detector.detect(shot.rgb, depth, self._served, self._embedder)
        if self.shift is not None and found:
            features = np.stack([d.embedding * d.length for d in found])
            due = self.shift.observe(torch.from_numpy(features))
            if due and self.shift.update(self._knowledge):
                self._served = moved_knowledge(self._knowledge, self.shift.value)
        boxes = np.array([d.box for d in found], np.float32).reshape(-1, 4)
        labels, scores = tuple(d.label for d in found), tuple(d.score for d in found)
        return Scene(shot.boxes, shot.labels, boxes, labels, scores)


def pointed_out(shots: Iterable[Shot], label: str) -> list[CompressedImage]:
    """A person's crops of a thing, one of each frame that it is in."""
    crops = []
    for shot in shots:
        own = np.array([name == label for name in shot.labels], bool)
        for crop in crops_of(shot.rgb, shot.boxes[own], DetectorConfig().margin):
            jpeg = cv2.imencode(".jpg", cv2.cvtColor(crop, cv2.COLOR_RGB2BGR))[1]
            crops.append(CompressedImage(format="jpeg", data=array.array("B", jpeg.tobytes())))
    return crops


def unknown_ids(shots: Sequence[Shot], messages: Sequence[OpenWorldDetections]) -> dict[str, str]:
    """Which unknown object of the node each class is, by where it was seen."""
    votes: dict[str, Counter[str]] = {}
    for shot, message in zip(shots, messages, strict=True):
        for label, match in zip(shot.labels, said(shot, message).matches(), strict=True):
            name = message.detections[match].unknown_id if match >= 0 else ""
            if name:
                votes.setdefault(label, Counter())[name] += 1
    return {label: counts.most_common(1)[0][0] for label, counts in votes.items()}


class NoEvents:
    """Ignores what a session reports."""

    def knowledge_changed(self, in_use: object) -> None:
        pass

    unknown_changed = job_changed = storage_failed = knowledge_changed


def _image(header: Header, encoding: str, pixels: np.ndarray) -> Image:
    height, width = pixels.shape[:2]
    step = pixels.nbytes // height
    message = Image(header=header, height=height, width=width, encoding=encoding, step=step)
    message.data = array.array("B", pixels.tobytes())
    return message
