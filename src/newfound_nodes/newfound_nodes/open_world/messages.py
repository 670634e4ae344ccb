# SPDX-License-Identifier: Apache-2.0
"""From values to messages of newfound_msgs."""

import math
from collections.abc import Sequence
from typing import Any

from builtin_interfaces.msg import Time
from sensor_msgs.msg import CompressedImage, RegionOfInterest
from std_msgs.msg import Header

from newfound_core.detection.detector import Detection
from newfound_core.detection.unknown_object import UnknownObject
from newfound_msgs import msg
from newfound_nodes.open_world.job_status import JobStatus
from newfound_nodes.open_world.keeper import Now

_UNKNOWN_STATES = {
    "waiting": msg.UnknownObject.STATE_WAITING,
    "learning": msg.UnknownObject.STATE_LEARNING,
    "learned": msg.UnknownObject.STATE_LEARNED,
    "dismissed": msg.UnknownObject.STATE_DISMISSED,
    "expired": msg.UnknownObject.STATE_EXPIRED,
}
_ORIGINS = {"shipped": msg.KnownClass.ORIGIN_SHIPPED, "learned": msg.KnownClass.ORIGIN_LEARNED}


def detections_message(
    header: Header,
    version: int,
    found: Sequence[Detection],
    tracks: Sequence[int],
    unknown_ids: Sequence[str],
) -> msg.OpenWorldDetections:
    """All objects of an image."""
    detections = [_detection(*facts) for facts in zip(found, tracks, unknown_ids, strict=True)]
    return msg.OpenWorldDetections(header=header, knowledge_version=version, detections=detections)


def _detection(found: Detection, track: int, unknown_id: str) -> msg.OpenWorldDetection:
    kinds = msg.OpenWorldDetection
    return msg.OpenWorldDetection(
        kind=kinds.KIND_KNOWN if found.known else kinds.KIND_UNKNOWN,
        region=region(found.box.tolist()),
        label=found.label,
        score=found.score,
        nearest_label=found.nearest_label,
        distance=found.distance,
        rejection_threshold=found.rejection_threshold,
        objectness=found.objectness,
        track_id=track % 2**32,
        unknown_id="" if found.known else unknown_id,
    )


def region(box: Sequence[float]) -> RegionOfInterest:
    """The smallest region of whole pixels around a box."""
    left, top = math.floor(box[0]), math.floor(box[1])
    right, bottom = math.ceil(box[2]), math.ceil(box[3])
    return RegionOfInterest(x_offset=left, y_offset=top, width=right - left, height=bottom - top)


def unknown_message(entry: UnknownObject, crops: int) -> msg.UnknownObject:
    """An unknown object with so many of its best crops."""
    return msg.UnknownObject(
        header=Header(stamp=time_message(entry.last_seen), frame_id=entry.frame_id),
        id=entry.id,
        state=_UNKNOWN_STATES[entry.state],
        sightings=entry.sightings,
        first_seen=time_message(entry.first_seen),
        last_seen=time_message(entry.last_seen),
        region=region(entry.box),
        crops=[CompressedImage(format="jpeg", data=crop.image) for crop in entry.crops[:crops]],
        nearest_label=entry.nearest_label,
        distance=entry.distance,
        rejection_threshold=entry.rejection_threshold,
        label=entry.label,
    )


def knowledge_message(now: Now) -> msg.KnowledgeBase:
    """Everything that is known."""
    knowledge = now.knowledge
    thresholds = knowledge.model.head.rejection_threshold.tolist()
    classes = [
        _known_class(now, label, threshold)
        for label, threshold in zip(knowledge.labels, thresholds, strict=True)
    ]
    return msg.KnowledgeBase(
        stamp=time_message(int(now.since * 1e9)),
        version=now.version,
        method=knowledge.loaded.metadata.method,
        classes=classes,
        restorable_versions=now.restorable,
        memory_size=sum(knowledge.exemplars.values()),
        memory_limit=knowledge.memory_limit,
    )


def _known_class(now: Now, label: str, threshold: float) -> msg.KnownClass:
    note = now.classes.get(label)
    return msg.KnownClass(
        label=label,
        origin=_ORIGINS[note.origin if note else "shipped"],
        exemplars=now.knowledge.exemplars.get(label, 0),
        rejection_threshold=threshold,
        since_version=note.since_version if note else now.version,
        learned=time_message(int(note.learned * 1e9) if note else 0),
    )


def learning_message(status: JobStatus, stamp: Time) -> msg.LearningStatus:
    """Where a job is."""
    return msg.LearningStatus(
        stamp=stamp,
        job_id=status.job,
        label=status.label,
        stage=getattr(msg.LearningStatus, f"STAGE_{status.stage.upper()}"),
        progress=status.progress,
        remaining_seconds=-1.0 if status.seconds_left is None else float(status.seconds_left),
        knowledge_version=status.version,
        message=status.message,
    )


def time_message(nanoseconds: int) -> Any:
    """A time; before 1970 and after 2106 there is none."""
    seconds, rest = divmod(max(0, nanoseconds), 10**9)
    return Time(sec=min(seconds, 2**31 - 1), nanosec=rest)
