# SPDX-License-Identifier: Apache-2.0
"""Teaching a thing that is held before the camera: views are collected until they are enough.

Views come from the pairs of image and detections that the live feed makes. The detector says which
of them differ, and how many it would recognise by the others (`~/assess_views`); only those that
differ are kept.
"""

import asyncio
import time
from typing import Any

import cv2
import numpy as np
from sensor_msgs.msg import CompressedImage

from newfound_console.bridge import Bridge, CallError
from newfound_console.live import number
from newfound_console.pictures import Pictures
from newfound_core.detection.boxes import square_around
from newfound_msgs import msg, srv

MAX_VIEWS = 40
ENOUGH = 0.85  # expected accuracy from which on it is said that the views are enough
MARGIN = 0.15  # around a box, as a share of its longer side; as the detector crops
PERIOD = 0.35  # s between two views, at least
LOST = 1.5  # s after which the thing is said to be out of view
JPEG_QUALITY = 92


class TeachSession:
    """Views of one thing, for one detector. Everything runs in the event loop."""

    def __init__(self, bridge: Bridge, detector: str, pictures: Pictures) -> None:
        self._bridge, self.detector, self._pictures = bridge, detector, pictures
        self.clear()

    def clear(self) -> None:
        """Begin anew with another thing."""
        self.collecting = False
        self._track = 0  # of the thing; 0: whatever is largest
        self.unknown_id = ""
        self._views: list[bytes] = []
        self._last = self._seen = 0.0  # when a view was taken, and when the thing was seen
        self._looks = self._nothing_new = 0
        self._busy = False
        self._epoch = getattr(self, "_epoch", 0) + 1  # answers about an earlier thing are dropped
        self.expected, self.recognised, self.known_label, self.problem = 0.5, 0, "", ""

    def begin(self, track: int) -> None:
        """Collect views of the thing on a track; 0: of the largest one in view."""
        if track != self._track or not self._views:
            self.clear()
        self._track, self.collecting = track, True

    def pause(self) -> None:
        """Collect no more; what was collected stays."""
        self.collecting = False

    # Views.

    def offer(self, rgb: np.ndarray, found: msg.OpenWorldDetections) -> None:
        """Take a view from an image and what was found in it, if it is time for one."""
        now = time.monotonic()
        if not self.collecting or self._busy or now - self._last < PERIOD:
            return
        thing = self._thing(found)
        if thing is None:
            return
        self._seen = self._last = now
        self.unknown_id = thing.unknown_id or self.unknown_id
        self._busy = True
        view = crop_of(rgb, thing.region)
        self._bridge.loop.create_task(self._assess(view, self._epoch))

    def _thing(self, found: msg.OpenWorldDetections) -> msg.OpenWorldDetection | None:
        by_track = [d for d in found.detections if d.track_id == self._track]
        if self._track and by_track:
            return by_track[0]
        if self._track and time.monotonic() - self._seen < LOST:
            return None
        # The track was lost, as when a thing is turned quickly: the largest thing is taken.
        largest = max(
            found.detections, key=lambda d: d.region.width * d.region.height, default=None
        )
        if largest is not None and self._track:
            self._track = largest.track_id
        return largest

    async def _assess(self, view: bytes, epoch: int) -> None:
        images = [_picture(each) for each in [*self._views, view]]
        try:
            answer = await self._bridge.call(
                srv.AssessViews,
                f"{self.detector}/assess_views",
                srv.AssessViews.Request(images=images),
            )
        except CallError as error:
            if epoch == self._epoch:
                self.problem, self._busy = str(error), False
            return
        if epoch != self._epoch:
            return
        self._busy, self.problem = False, ""
        self._looks += 1
        if answer.differs[-1]:
            self._views.append(view)
            self._nothing_new = 0
        else:
            self._nothing_new += 1
        self.expected, self.recognised = answer.expected_accuracy, answer.recognised
        self.known_label = answer.known_label
        if len(self._views) >= MAX_VIEWS:
            self.collecting = False

    async def learn(self, label: str, extend: bool) -> str:
        """Have the thing learned; returns the job's id. Views stay, it may be rejected."""
        request = srv.AddUnknownClass.Request(
            label=label,
            unknown_id=self.unknown_id,
            images=[_picture(view) for view in self._views],
            extend=extend,
        )
        service = f"{self.detector}/add_unknown_class"
        try:
            answer = await self._bridge.call(srv.AddUnknownClass, service, request)
        except CallError:
            if not request.unknown_id:
                raise
            request.unknown_id = ""  # it has expired, or is being learned under another name
            answer = await self._bridge.call(srv.AddUnknownClass, service, request)
        self.pause()
        return answer.job_id

    def report(self) -> dict[str, Any]:
        """For the page."""
        seen = time.monotonic() - self._seen < LOST
        return {
            "collecting": self.collecting,
            "in_view": seen,
            "views": [self._pictures.add(view) for view in self._views],
            "recognised": self.recognised,
            "expected": number(self.expected),
            "enough": self.expected >= ENOUGH,
            "target": ENOUGH,
            "full": len(self._views) >= MAX_VIEWS,
            "nothing_new": self._nothing_new,
            "known": self.known_label,
            "problem": self.problem,
        }


class TeachFeed:
    """Publishes a session while it is watched, and ends collecting when nobody does."""

    def __init__(self, session: TeachSession, publish: Any) -> None:
        self._session, self._publish = session, publish
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Publish twice a second."""
        self._task = self._session._bridge.loop.create_task(self._run())

    def stop(self) -> None:
        """Nobody holds anything before the camera any more."""
        if self._task is not None:
            self._task.cancel()
        self._session.pause()

    async def _run(self) -> None:
        while True:
            self._publish(self._session.report())
            await asyncio.sleep(0.4)


def crop_of(rgb: np.ndarray, region: Any) -> bytes:
    """What the detector would cut out of an image for a box, as JPEG."""
    left, top = region.x_offset, region.y_offset
    box = np.array([left, top, left + region.width, top + region.height], np.float32)
    height, width = rgb.shape[:2]
    left, top, right, bottom = square_around(box, MARGIN, width, height)
    bgr = cv2.cvtColor(np.ascontiguousarray(rgb[top:bottom, left:right]), cv2.COLOR_RGB2BGR)
    return cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1].tobytes()


def _picture(content: bytes) -> CompressedImage:
    return CompressedImage(format="jpeg", data=content)
