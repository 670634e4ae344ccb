# SPDX-License-Identifier: Apache-2.0
"""Sightings out of messages, and messages out of what is remembered."""

import math
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
from geometry_msgs.msg import Point, Pose, Quaternion, Vector3
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from newfound_core.object_memory import RememberedObject, Sighting
from newfound_msgs import msg
from newfound_nodes.knowledge.messages import time_message
from newfound_nodes.object_memory.cameras import nanoseconds
from newfound_nodes.open_world.positions import placed
from newfound_nodes.transforms import vector

_VIEW_SIZE, _VIEW_MARGIN, _JPEG = 256, 0.1, 85  # pixels, share of the box, quality


def sightings(
    message: msg.OpenWorldDetections,
) -> Iterator[tuple[msg.OpenWorldDetection, Sighting]]:
    """The detections that have a position, in the target frame if there is one."""
    header, poses = placed(message)
    found = [each for each in message.detections if each.has_position]
    for each, pose in zip(found, poses, strict=True):
        q = pose.orientation
        values = (*vector(pose.position), q.x, q.y, q.z, q.w, *vector(each.size))
        if not all(map(math.isfinite, (*values, each.position_error))):
            continue
        place = tuple(vector(pose.position).tolist())
        size = tuple(vector(each.size).tolist())
        area = float(each.region.width * each.region.height)
        yield each, Sighting(
            header.frame_id, place, (q.x, q.y, q.z, q.w), size, each.position_error,
            nanoseconds(header.stamp), each.label, each.unknown_id, message.header.frame_id,
            max(each.score, 0.1) * math.sqrt(area),
        )  # fmt: skip


def jpeg_of(rgb: np.ndarray, region: Any) -> bytes:
    """A detection with a little around it."""
    margin = round(_VIEW_MARGIN * max(region.width, region.height))
    top, left = max(0, region.y_offset - margin), max(0, region.x_offset - margin)
    bottom, right = (
        region.y_offset + region.height + margin,
        region.x_offset + region.width + margin,
    )
    crop = rgb[top:bottom, left:right]
    if not crop.size:
        return b""
    scale = min(1.0, _VIEW_SIZE / max(crop.shape[:2]))
    size = (max(1, round(crop.shape[1] * scale)), max(1, round(crop.shape[0] * scale)))
    small = cv2.resize(np.ascontiguousarray(crop), size, interpolation=cv2.INTER_AREA)
    made, content = cv2.imencode(
        ".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, _JPEG]
    )
    return content.tobytes() if made else b""


def remembered_message(each: RememberedObject) -> msg.RememberedObject:
    """A thing without its view."""
    return msg.RememberedObject(
        header=Header(stamp=time_message(each.last_seen), frame_id=each.frame),
        id=f"o{each.id}",
        label=each.label,
        unknown_id=each.unknown_id,
        pose=_pose(each),
        size=Vector3(x=each.length, y=each.width, z=each.height),
        position_error=each.error,
        presence=each.presence,
        sightings=min(each.sightings, 2**32 - 1),
        first_seen=time_message(each.first_seen),
        last_seen=time_message(each.last_seen),
        camera=each.camera,
    )


def _pose(each: RememberedObject) -> Pose:
    return Pose(
        position=Point(x=each.x, y=each.y, z=each.z),
        orientation=Quaternion(x=each.qx, y=each.qy, z=each.qz, w=each.qw),
    )


def markers(objects: list[RememberedObject]) -> MarkerArray:
    """Boxes and names for RViz; what is uncertain is more transparent."""
    shown = [Marker(action=Marker.DELETEALL)]
    for each in objects:
        header, pose = Header(frame_id=each.frame), _pose(each)
        box = Marker(
            header=header, ns="remembered", id=each.id % 2**31, type=Marker.CUBE, pose=pose
        )
        box.scale = Vector3(x=each.length, y=each.width, z=each.height)
        red, green, blue = (0.2, 0.4, 0.9) if each.label else (0.94, 0.47, 0.08)
        box.color = ColorRGBA(r=red, g=green, b=blue, a=0.6 * each.presence)
        text = Marker(
            header=header, ns="names", id=box.id, type=Marker.TEXT_VIEW_FACING, pose=pose
        )
        text.text, text.scale.z = each.label or each.unknown_id or "unknown", 0.04
        text.color = ColorRGBA(r=1.0, g=1.0, b=1.0, a=1.0)
        shown += [box, text]
    return MarkerArray(markers=shown)
