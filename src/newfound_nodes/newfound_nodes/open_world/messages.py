# SPDX-License-Identifier: Apache-2.0
"""Results of the open-world detector as messages, and as an annotated image."""

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from sensor_msgs.msg import CompressedImage, RegionOfInterest
from std_msgs.msg import Header

from newfound_core.detection.detector import Detection
from newfound_core.detection.light_shift import LightShiftConfig
from newfound_core.detection.unknown_objects import UnknownObject
from newfound_core.knowledge.knowledge_base import VersionNote
from newfound_core.learning.job import JobStatus
from newfound_msgs import msg
from newfound_nodes.open_world.light import LightReport
from newfound_nodes.open_world.positions import add_position
from newfound_nodes.open_world.session import FrameResult, KnowledgeInUse

_ORIGINS = {"shipped": msg.KnownClass.ORIGIN_SHIPPED, "learned": msg.KnownClass.ORIGIN_LEARNED}

KNOWN, UNKNOWN, TEXT = (40, 180, 60), (240, 120, 20), (255, 255, 255)  # red, green, blue


def detections_message(header: Header, result: FrameResult) -> msg.OpenWorldDetections:
    """All objects of an image."""
    facts = zip(result.detections, result.tracks, result.unknown_ids, strict=True)
    return msg.OpenWorldDetections(
        header=header,
        knowledge_version=result.version,
        detections=[_detection(*each) for each in facts],
    )


def _detection(found: Detection, track: int, unknown_id: str) -> msg.OpenWorldDetection:
    kinds = msg.OpenWorldDetection
    message = msg.OpenWorldDetection(
        kind=kinds.KIND_KNOWN if found.known else kinds.KIND_UNKNOWN,
        region=region(found.box.tolist()),
        label=found.label,
        score=found.score,
        nearest_label=found.nearest_label,
        distance=found.distance,
        rejection_threshold=found.rejection_threshold,
        objectness=found.objectness,
        proposed_by=found.proposed_by,
        track_id=track % 2**32,
        unknown_id="" if found.known else unknown_id,
    )
    add_position(message, found.position)
    return message


def region(box: Sequence[float]) -> RegionOfInterest:
    """The smallest region of whole pixels around a box."""
    left, top = math.floor(box[0]), math.floor(box[1])
    right, bottom = math.ceil(box[2]), math.ceil(box[3])
    return RegionOfInterest(x_offset=left, y_offset=top, width=right - left, height=bottom - top)


def unknown_message(entry: UnknownObject, crops: int) -> msg.UnknownObject:
    """An unknown object with some of its best crops."""
    return msg.UnknownObject(
        header=Header(stamp=time_message(entry.last_seen), frame_id=entry.frame_id),
        id=entry.id,
        state=getattr(msg.UnknownObject, f"STATE_{entry.state.upper()}"),
        sightings=entry.sightings,
        first_seen=time_message(entry.first_seen),
        last_seen=time_message(entry.last_seen),
        region=region(entry.box),
        crops=[CompressedImage(format="jpeg", data=crop.image) for crop in entry.crops[:crops]],
        nearest_label=entry.nearest_label,
        distance=entry.distance,
        rejection_threshold=entry.rejection_threshold,
        label=entry.label,
        stability=entry.stability,
        merged_into=entry.merged_into,
    )


def knowledge_message(in_use: KnowledgeInUse) -> msg.KnowledgeBase:
    """Everything that is known."""
    knowledge = in_use.knowledge
    thresholds = knowledge.model.head.rejection_threshold.tolist()
    classes = [
        _known_class(in_use, label, threshold)
        for label, threshold in zip(knowledge.labels, thresholds, strict=True)
    ]
    return msg.KnowledgeBase(
        stamp=time_message(int(in_use.since * 1e9)),
        version=in_use.version,
        method=knowledge.loaded.metadata.method,
        classes=classes,
        restorable_versions=in_use.restorable,
        memory_size=sum(knowledge.exemplars.values()),
        memory_limit=knowledge.memory_limit,
    )


def _known_class(in_use: KnowledgeInUse, label: str, threshold: float) -> msg.KnownClass:
    note = in_use.classes.get(label)
    return msg.KnownClass(
        label=label,
        origin=_ORIGINS[note.origin if note else "shipped"],
        exemplars=in_use.knowledge.exemplars.get(label, 0),
        rejection_threshold=threshold,
        since_version=note.since_version if note else in_use.version,
        learned=time_message(int(note.learned * 1e9) if note else 0),
    )


def version_message(version: int, note: VersionNote, in_use: int) -> msg.KnowledgeVersion:
    """One version on disk."""
    return msg.KnowledgeVersion(
        version=version,
        made=time_message(int(note.made * 1e9)),
        reason=note.reason,
        labels=sorted(note.classes),
        in_use=version == in_use,
    )


def learning_message(status: JobStatus, stamp: Time) -> msg.LearningStatus:
    """Where a job is."""
    return msg.LearningStatus(
        stamp=stamp,
        job_id=status.job,
        label=status.label,
        state=getattr(msg.LearningStatus, f"STATE_{status.state.upper()}"),
        progress=status.progress,
        remaining_seconds=-1.0 if status.seconds_left is None else float(status.seconds_left),
        knowledge_version=status.version,
        message=status.message,
    )


def adaptation_message(
    report: LightReport, config: LightShiftConfig, stamp: Time
) -> msg.AdaptationStatus:
    """How far the learned classes have followed the light."""
    states, status = msg.AdaptationStatus, report.status
    on = report.state != "off"
    message = msg.AdaptationStatus(
        header=Header(stamp=stamp),
        state=getattr(states, f"STATE_{report.state.upper()}") if on else states.STATE_DISABLED,
        estimator="embedding" if on else "",
        frames=status.frames,
        frames_skipped=status.redundant,
        updates=status.updates,
        frames_per_update=config.frames_per_update,
        momentum=1.0,
        entropy=math.nan,
        message=report.problem or ("" if on else "the parameter adapt is false"),
    )
    if on:
        message.layers, message.drift = ["embedding"], [status.length]
        message.drift_mean = message.drift_max = status.length
    return message


def time_message(nanoseconds: int) -> Any:
    """A time message, clamped to what it can hold: 1970 to 2038."""
    seconds, rest = divmod(max(0, nanoseconds), 10**9)
    return Time(sec=min(seconds, 2**31 - 1), nanosec=rest)


def annotate(rgb: np.ndarray, result: FrameResult) -> np.ndarray:
    """A copy of the image with boxes and labels; unknown objects are orange."""
    canvas = np.ascontiguousarray(rgb).copy()
    for detection, track in zip(result.detections, result.tracks, strict=True):
        left, top, right, bottom = (round(float(value)) for value in detection.box)
        colour = KNOWN if detection.known else UNKNOWN
        cv2.rectangle(canvas, (left, top), (right - 1, bottom - 1), colour, 2)
        name = detection.label or f"unknown ({detection.nearest_label}?)"
        _write(
            canvas,
            f"{track} {name} {detection.distance:.2f}/{detection.rejection_threshold:.2f}",
            left,
            top,
        )
    return canvas


def _write(canvas: np.ndarray, text: str, left: int, top: int) -> None:
    text = text.encode("ascii", "replace").decode()  # all that the font has
    (width, height), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.45, 1)
    bottom = max(top, height + 4)
    cv2.rectangle(canvas, (left, bottom - height - 4), (left + width, bottom), (0, 0, 0), -1)
    cv2.putText(canvas, text, (left, bottom - 3), cv2.FONT_HERSHEY_SIMPLEX, 0.45, TEXT, 1)
