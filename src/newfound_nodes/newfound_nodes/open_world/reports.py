# SPDX-License-Identifier: Apache-2.0
"""Reports of unknown objects by detectors that share knowledge: the service and its client."""

import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup

from newfound_core.detection.crops import Crop
from newfound_core.detection.unknown_objects import UnknownObject, UnknownState
from newfound_msgs import msg
from newfound_msgs.srv import ReportUnknown
from newfound_nodes.open_world.messages import unknown_message
from newfound_nodes.open_world.services import usable_images
from newfound_nodes.open_world.session import OpenWorldSession
from newfound_runtime.managed_node import ManagedNode
from newfound_runtime.services import RequestError, answering

_STATES = {getattr(msg.UnknownObject, f"STATE_{state.upper()}"): state for state in UnknownState}
_LONGEST_NAME = 256


class ReportService:
    """Takes reports in."""

    def __init__(self, node: ManagedNode, session: Callable[[], OpenWorldSession]) -> None:
        self._session = session
        node.create_service(
            ReportUnknown,
            "~/report_unknown",
            answering(node, self._report),
            callback_group=MutuallyExclusiveCallbackGroup(),
        )

    def _report(self, request: Any, response: Any) -> None:
        session, seen = self._session(), reported(request)
        entry = session.report(request.reporter, request.run, seen)
        if entry is not None:
            response.unknown_id = entry.id
            response.state = getattr(msg.UnknownObject, f"STATE_{entry.state.upper()}")


def reported(request: Any) -> UnknownObject:
    """The object of a request; raises a RequestError if it makes no sense."""
    message, count = request.unknown, len(request.unknown.crops)
    state = _STATES.get(message.state)
    named = 0 < len(request.reporter) <= _LONGEST_NAME and 0 < len(message.id) <= _LONGEST_NAME
    if state is None or not named or len(request.run) > _LONGEST_NAME:
        raise RequestError("BAD_IMAGES", "not a report: reporter, id or state is missing")
    usable, problem = usable_images(message.crops)
    if problem or not (count == len(request.quality) == len(request.frames) == len(usable)):
        raise RequestError("BAD_IMAGES", problem or "crops, quality and frames differ in number")
    if not count and state in (UnknownState.WAITING, UnknownState.LEARNING):
        raise RequestError("BAD_IMAGES", "a report needs at least one crop")
    facts = zip(usable.values(), request.quality, request.frames, strict=True)
    region, place = message.region, message.position
    left, top = float(region.x_offset), float(region.y_offset)
    return UnknownObject(
        id=message.id,
        state=state,
        sightings=max(1, message.sightings),
        first_seen=_nanoseconds(message.first_seen),
        last_seen=_nanoseconds(message.last_seen),
        seen_at=time.time(),
        frame_id=message.header.frame_id,
        box=(left, top, left + region.width, top + region.height),
        crops=tuple(Crop(image, float(quality), frame) for image, quality, frame in facts),
        nearest_label=message.nearest_label,
        distance=message.distance,
        rejection_threshold=message.rejection_threshold,
        stability=message.stability,
        merged_into=message.merged_into,
        position_frame=message.position_frame,
        position=(place.x, place.y, place.z),
    )


def _nanoseconds(stamp: Any) -> int:
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


class ReportClient:
    """Sends reports to the owner's `report_unknown`."""

    def __init__(self, node: ManagedNode, owner: str, group: CallbackGroup) -> None:
        self._node, self._run = node, secrets.token_hex(8)
        self._client = node.create_client(
            ReportUnknown, f"{owner}/report_unknown", callback_group=group
        )
        self._sent: dict[str, Any] = {}  # futures by own id
        self.answered: Callable[[str, int, str, UnknownState], None] = lambda *_: None

    def close(self) -> None:
        """Take no more answers."""
        self.answered = lambda *_: None
        self._node.destroy_client(self._client)

    def send(self, entry: UnknownObject) -> None:
        """Report an object, unless the owner is away or still busy with the report before."""
        before = self._sent.get(entry.id)
        if not self._client.service_is_ready() or (before is not None and not before.done()):
            return
        future = self._client.call_async(
            ReportUnknown.Request(
                reporter=self._node.get_fully_qualified_name(),
                run=self._run,
                unknown=unknown_message(entry, len(entry.crops)),
                quality=[crop.quality for crop in entry.crops],
                frames=[crop.frame for crop in entry.crops],
            )
        )
        self._sent[entry.id] = future
        future.add_done_callback(partial(self._done, entry))

    def _done(self, entry: UnknownObject, future: Any) -> None:
        self._sent.pop(entry.id, None)
        answer = future.result()
        if answer is None or answer.result != answer.RESULT_OK:
            reason = answer.message if answer else "no answer"
            self._node.get_logger().warning(
                f"report of an unknown object refused: {reason}", throttle_duration_sec=10.0
            )
            return
        state = _STATES.get(answer.state, UnknownState.EXPIRED)
        self.answered(entry.id, entry.sightings, answer.unknown_id, state)
