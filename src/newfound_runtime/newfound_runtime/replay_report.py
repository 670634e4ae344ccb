# SPDX-License-Identifier: Apache-2.0
"""What nodes found in a recording: a summary, COCO annotations, crops and a figure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rclpy.serialization import deserialize_message

from newfound_core.storage import write_bytes, write_json
from newfound_msgs.msg import AdaptationStatus, OpenWorldDetection, OpenWorldDetections
from newfound_msgs.msg import UnknownObject as UnknownMessage
from newfound_runtime.bag_files import message_class
from newfound_runtime.bag_writer import type_name
from newfound_runtime.replay import Received

UNKNOWN = "unknown"  # the category of unknown objects


@dataclass(frozen=True)
class PlayedImage:
    """A frame that was fed to the nodes."""

    id: int  # from 1, as COCO has it
    name: str
    stamp: int  # ns
    width: int
    height: int


@dataclass
class ReplayReport:
    """Collects messages frame by frame; `write` makes files of them."""

    images: list[PlayedImage] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # frames of the recording that are damaged
    annotations: list[dict[str, Any]] = field(default_factory=list)
    unknowns: dict[str, UnknownMessage] = field(default_factory=dict)
    crops: dict[str, bytes] = field(default_factory=dict)  # best view of each, JPEG
    drift: dict[str, dict[int, AdaptationStatus]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # by node and stamp
    labels: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    sightings: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, image: PlayedImage, received: Sequence[Received], status: bool) -> None:
        """Take in a frame and what was published because of it.

        Without `status` the nodes were not asked for theirs: what comes nevertheless, by the time
        that the replay takes, would differ from one replay to the next.
        """
        self.images.append(image)
        for entry in received:
            if status or entry.type != type_name(AdaptationStatus):
                self._hear(entry, image.id)

    def _hear(self, entry: Received, image_id: int) -> None:
        message = deserialize_message(entry.data, message_class(entry.type))
        if isinstance(message, OpenWorldDetections):
            for found in message.detections:
                self._detected(entry.node, found, image_id, _stamp(message))
        elif isinstance(message, UnknownMessage):
            self.unknowns[message.id] = message
            if message.crops:
                self.crops[message.id] = bytes(message.crops[0].data)
        elif isinstance(message, AdaptationStatus):
            self.drift[entry.node][_stamp(message)] = message
        elif entry.output in ("classification", "place"):
            name = getattr(message, "label", None) or getattr(message, "category", "")
            self.labels[entry.node][name or UNKNOWN] += 1

    def _detected(self, node: str, found: OpenWorldDetection, image_id: int, stamp: int) -> None:
        box = found.region
        name = found.label or UNKNOWN
        self.labels[node][name] += 1
        if found.unknown_id:
            self.sightings[found.unknown_id].append(stamp)
        self.annotations.append(
            {
                "id": len(self.annotations) + 1,
                "image_id": image_id,
                "category": name,
                "bbox": [box.x_offset, box.y_offset, box.width, box.height],
                "area": box.width * box.height,
                "iscrowd": 0,
                "score": round(float(found.score), 6),
                "objectness": round(float(found.objectness), 6),
                "track_id": found.track_id,
                "unknown_id": found.unknown_id,
                "nearest_label": found.nearest_label,
                "node": node,
            }
        )

    # Files -------------------------------------------------------------------------------

    def coco(self) -> dict[str, Any]:
        """Images, annotations and categories; `unknown` is always category 1."""
        names = sorted({a["category"] for a in self.annotations} - {UNKNOWN})
        ids = {name: number for number, name in enumerate([UNKNOWN, *names], start=1)}
        return {
            "info": {"description": "Detections of newfound", "version": "1"},
            "images": [
                {"id": i.id, "file_name": i.name, "width": i.width, "height": i.height,
                 "stamp_ns": i.stamp}
                for i in self.images
            ],
            "annotations": [
                {**{k: v for k, v in a.items() if k != "category"},
                 "category_id": ids[a["category"]]}
                for a in self.annotations
            ],
            "categories": [{"id": number, "name": name} for name, number in ids.items()],
        }  # fmt: skip

    def summary(self, seconds: float, rate: float) -> dict[str, Any]:
        """Frames, speed, unknown objects and drift; `seconds` is how long the replay took."""
        recorded = self.recorded_seconds(rate)
        return {
            "frames": len(self.images),
            "frames_damaged": len(self.failed),
            "recorded_seconds": round(recorded, 3),
            "replay_seconds": round(seconds, 3),
            "speed": round(recorded / seconds, 3) if seconds else 0.0,
            "detections": len(self.annotations),
            "labels": {node: dict(counts.most_common()) for node, counts in self.labels.items()},
            "unknowns": self.unknown_entries(),
            "drift": {node: self.drift_entries(node) for node in sorted(self.drift)},
        }

    def recorded_seconds(self, rate: float) -> float:
        """How long the camera took for the frames."""
        if not self.images:
            return 0.0
        return (self.images[-1].stamp - self.images[0].stamp) * 1e-9 + 1 / rate

    def unknown_entries(self) -> list[dict[str, Any]]:
        """Unknown objects in the order in which they were first seen."""
        entries = [self._unknown_entry(message) for message in self.unknowns.values()]
        return sorted(entries, key=lambda entry: (entry["first_seen"], entry["id"]))

    def _unknown_entry(self, message: UnknownMessage) -> dict[str, Any]:
        # A message comes when an entry was seen twice as often; later sightings are counted here.
        last = _nanoseconds(message.last_seen)
        later = [stamp for stamp in self.sightings[message.id] if stamp > last]
        return {
            "id": message.id,
            "sightings": message.sightings + len(later),
            "first_seen": _nanoseconds(message.first_seen) * 1e-9,
            "last_seen": max([last, *later]) * 1e-9,
            "nearest_label": message.nearest_label,
            "distance": _finite(message.distance),
            "crop": f"unknowns/{message.id}.jpg" if message.id in self.crops else None,
        }

    def drift_entries(self, node: str) -> list[dict[str, Any]]:
        """How far the statistics have moved, over the time of the recording."""
        return [
            {
                "stamp": stamp * 1e-9,
                "updates": status.updates,
                "drift_mean": _finite(status.drift_mean),
                "drift_max": _finite(status.drift_max),
                "entropy": _finite(status.entropy),
            }
            for stamp, status in sorted(self.drift[node].items())
            if stamp
        ]

    def write(self, folder: Path, summary: Mapping[str, Any]) -> None:
        """Write report.json, detections.coco.json, unknowns/ and, if possible, timeline.png."""
        write_json(folder / "report.json", summary)
        write_json(folder / "detections.coco.json", self.coco())
        (folder / "unknowns").mkdir(exist_ok=True)
        for unknown_id, jpeg in self.crops.items():
            write_bytes(folder / "unknowns" / f"{unknown_id}.jpg", jpeg)
        self._draw(folder / "timeline.png")

    def _draw(self, file: Path) -> None:
        """Objects in each frame, when unknown objects were seen, and the drift."""
        try:
            from matplotlib.figure import Figure  # without pyplot: no display, no global state
        except ImportError:
            return
        if not self.images:
            return
        began = self.images[0].stamp
        figure = Figure(figsize=(9, 6), layout="constrained")
        counts, seen, drift = figure.subplots(3, 1, sharex=True)
        seconds = [(image.stamp - began) * 1e-9 for image in self.images]
        found = Counter((a["image_id"], a["category"] == UNKNOWN) for a in self.annotations)
        for unknown, colour in ((False, "tab:green"), (True, "tab:orange")):
            values = [found[image.id, unknown] for image in self.images]
            label = UNKNOWN if unknown else "known"
            counts.step(seconds, values, where="post", color=colour, label=label)
        counts.set(ylabel="objects per frame")
        counts.legend(fontsize=8)
        entries = self.unknown_entries()
        for row, entry in enumerate(entries):
            times = [(stamp - began) * 1e-9 for stamp in self.sightings[entry["id"]]]
            seen.plot(times, [row] * len(times), "|", color="tab:orange")
        seen.set(ylabel="unknown objects", ylim=(-0.5, max(len(entries), 1) - 0.5), yticks=[])
        for node in self.drift:
            points = self.drift_entries(node)
            times = [point["stamp"] - began * 1e-9 for point in points]
            drift.plot(times, [point["drift_mean"] for point in points], ".-", label=node)
        drift.set(ylabel="drift (nats)", xlabel="seconds of the recording")
        if self.drift:
            drift.legend(fontsize=8)
        figure.savefig(file, dpi=90)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _stamp(message: Any) -> int:
    return _nanoseconds(message.header.stamp)


def _nanoseconds(stamp: Any) -> int:
    return stamp.sec * 10**9 + stamp.nanosec
