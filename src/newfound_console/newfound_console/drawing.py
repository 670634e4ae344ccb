# SPDX-License-Identifier: Apache-2.0
"""Teaching a segmenter: a person draws around a class in pictures of the camera.

A picture is taken when it is asked for, and kept with its outlines until the class is learned: a
reload of the page loses nothing. Outlines become masks when they are sent to the segmenter.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from sensor_msgs.msg import CompressedImage

from newfound_console.bridge import Bridge, CallError
from newfound_console.directory import Camera
from newfound_console.live import ImageSource, small_jpeg
from newfound_console.pictures import Pictures
from newfound_msgs import srv

MAX_PICTURES = 40
ENOUGH = 12  # pictures that show the class, by docs/segmenter.md; fewer are taken as well
FEWEST = 2  # one to learn from, one to hold out
MAX_SIDE = 960  # pixels; a segmenter works with fewer
JPEG_QUALITY = 92
_FINE = 4  # bits behind the point of a drawn coordinate

Outline = Sequence[tuple[float, float]]  # x and y as shares of width and height


@dataclass(frozen=True)
class Drawn:
    """A picture and the outlines in it; none: the class is not in view."""

    id: int
    jpeg: bytes
    size: tuple[int, int]  # width, height
    outlines: tuple[Outline, ...] = ()

    def mask(self) -> bytes:
        """1 inside of any outline, else 0, as PNG."""
        values = np.zeros(self.size[::-1], np.uint8)
        for outline in self.outlines:
            # A coordinate of cv2 is the middle of a pixel.
            points = (np.array(outline) * self.size - 0.5) * 2**_FINE
            cv2.fillPoly(values, [np.round(points).astype(np.int32)], (1,), shift=_FINE)
        return cv2.imencode(".png", values)[1].tobytes()


class DrawSession:
    """Pictures for one segmenter. Everything runs in the event loop."""

    def __init__(self, bridge: Bridge, segmenter: str, pictures: Pictures) -> None:
        self._bridge, self.segmenter, self._pictures = bridge, segmenter, pictures
        self.newest: np.ndarray | None = None  # what the camera sees, uint8 [H, W, 3]
        self._numbers = itertools.count(1)
        self._taken: Drawn | None = None  # the picture that is being drawn in
        self._kept: dict[int, Drawn] = {}

    def take(self) -> dict[str, Any]:
        """Hold what the camera sees now, to draw in it."""
        if self.newest is None:
            raise CallError("the camera has sent no picture yet")
        jpeg = small_jpeg(self.newest, MAX_SIDE, JPEG_QUALITY)
        height, width = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_GRAYSCALE).shape
        self._taken = Drawn(next(self._numbers), jpeg, (width, height))
        return {"id": self._taken.id, "picture": self._pictures.add(jpeg),
                "width": width, "height": height}  # fmt: skip

    def keep(self, picture_id: int, outlines: Sequence[Outline]) -> None:
        """Keep the picture that was taken, with what was drawn in it."""
        taken = self._taken
        if taken is None or taken.id != picture_id:
            raise CallError("that picture is gone: take it again")
        if len(self._kept) >= MAX_PICTURES:
            raise CallError(f"{MAX_PICTURES} pictures are as many as it can take")
        self._kept[taken.id] = Drawn(taken.id, taken.jpeg, taken.size, tuple(outlines))
        self._taken = None

    def remove(self, picture_id: int) -> None:
        """Throw a picture away."""
        self._kept.pop(picture_id, None)

    def clear(self) -> None:
        """Begin anew with another class."""
        self._taken, self._kept = None, {}

    async def learn(self, label: str) -> str:
        """Have the class learned; returns the job's id. Pictures stay, it may be rejected."""
        request = srv.AddSegmentClass.Request(
            label=label,
            images=[CompressedImage(format="jpeg", data=d.jpeg) for d in self._kept.values()],
            masks=[CompressedImage(format="png", data=d.mask()) for d in self._kept.values()],
        )
        service = f"{self.segmenter}/add_segment_class"
        answer = await self._bridge.call(srv.AddSegmentClass, service, request)
        return answer.job_id

    def report(self) -> dict[str, Any]:
        """For the page."""
        return {
            "pictures": [
                {"id": d.id, "picture": self._pictures.add(d.jpeg), "width": d.size[0],
                 "height": d.size[1], "outlines": d.outlines}
                for d in self._kept.values()
            ],
            "shown": sum(bool(d.outlines) for d in self._kept.values()),
            "fewest": FEWEST,
            "enough": ENOUGH,
            "full": len(self._kept) >= MAX_PICTURES,
            "camera": self.newest is not None,
        }  # fmt: skip


class DrawFeed:
    """Publishes a session while it is watched."""

    def __init__(
        self, bridge: Bridge, session: DrawSession, publish: Callable[[Any], None]
    ) -> None:
        self._bridge, self._session, self._publish = bridge, session, publish
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Publish twice a second."""
        self._task = self._bridge.loop.create_task(self._run())

    def stop(self) -> None:
        """What the camera saw is of no use when the page is opened again."""
        if self._task is not None:
            self._task.cancel()
        self._session.newest = None

    async def _run(self) -> None:
        while True:
            self._publish(self._session.report())
            await asyncio.sleep(0.5)


class AreasFeed:
    """The segmenter's own picture: every pixel in the colour of its class."""

    def __init__(
        self,
        source: Callable[[Camera], ImageSource],
        segmenter: str,
        publish: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        self._make, self._segmenter, self._publish = source, segmenter, publish
        self._source: ImageSource | None = None

    def start(self) -> None:
        """Subscribe; the segmenter draws only while someone does."""
        topic = f"{self._segmenter}/debug_image"
        self._source = self._make(Camera(topic, topic, "compressed"))
        self._source.listen(self._on_image)

    def stop(self) -> None:
        """Unsubscribe."""
        if self._source is not None:
            self._source.close()

    def _on_image(self, stamp: int, jpeg: bytes, rgb: np.ndarray) -> None:
        self._publish({"width": rgb.shape[1], "height": rgb.shape[0], "boxes": []}, jpeg)
