# SPDX-License-Identifier: Apache-2.0
"""Results of the open-world detector as messages, and as an annotated image."""

import math
from collections.abc import Sequence

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point
from sensor_msgs.msg import CompressedImage, RegionOfInterest
from std_msgs.msg import Header

from newfound_core.detection.detector import Detection
from newfound_core.detection.light_shift import LightShiftConfig
from newfound_core.detection.unknown_objects import UnknownObject
from newfound_msgs import msg
from newfound_nodes.knowledge.messages import known_class, time_message
from newfound_nodes.open_world.frame_session import FrameResult, KnowledgeInUse
from newfound_nodes.open_world.light import LightReport
from newfound_nodes.open_world.positions import add_position

KNOWN, UNKNOWN, TEXT = (40, 180, 60), (240, 120, 20), (255, 255, 255)  # red, green, blue


def detections_message(header: Header, result: FrameResult) -> msg.OpenWorldDetections:
    """All objects of an image."""
    facts = zip(result.detections, result.tracks, result.unknown_ids, strict=True)
    return msg.OpenWorldDetections(
        header=header,
        knowledge_version=result.version,
        detections=[_detection(*each) for each in facts],
    )


def shown(
    result: FrameResult, classes: Sequence[str], min_score: float, unknown: str
) -> FrameResult:
    """Those of certain classes (none given: all) and a score; `unknown` stands for no class."""
    wanted = {name for name in classes if name}
    kept = [
        row
        for row, found in enumerate(result.detections)
        if found.score >= min_score and (not wanted or (found.label or unknown) in wanted)
    ]
    if len(kept) == len(result.detections):
        return result
    return FrameResult(
        result.version,
        [result.detections[row] for row in kept],
        [result.tracks[row] for row in kept],
        [result.unknown_ids[row] for row in kept],
        [result.own_ids[row] for row in kept],
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
        position_frame=entry.position_frame,
        position=Point(**dict(zip("xyz", entry.position, strict=True))),
    )


def knowledge_message(in_use: KnowledgeInUse) -> msg.KnowledgeBase:
    """Everything that is known."""
    knowledge = in_use.knowledge
    thresholds = knowledge.model.head.rejection_threshold.tolist()
    classes = [
        known_class(
            label,
            in_use.classes.get(label),
            in_use.version,
            exemplars=knowledge.exemplars.get(label, 0),
            rejection_threshold=threshold,
        )
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
