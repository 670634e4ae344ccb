# SPDX-License-Identifier: Apache-2.0
"""Everything behind the pages, in the server's event loop: what is watched, and what is done."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from newfound_console.bridge import Bridge
from newfound_console.detectors import DetectorState
from newfound_console.directory import Camera, Directory
from newfound_console.drawing import AreasFeed, DrawFeed, DrawSession
from newfound_console.hub import Feed, Hub, image_message, text_message
from newfound_console.light import LightFeed
from newfound_console.live import ImageSource, LiveFeed
from newfound_console.pictures import Pictures
from newfound_console.teaching import TeachFeed, TeachSession

S = TypeVar("S")
STATUS = "status"  # channel: cameras, nodes, questions; watched by every page
MAX_SESSIONS = 20  # of teaching, one for each node that learns
PERIOD = 0.2  # s between two messages of a channel that changes often


@dataclass(frozen=True)
class Settings:
    """How much is sent to browsers."""

    image_rate: float = 6.0  # Hz
    image_side: int = 640  # pixels


class Console:
    """Joins graph, detectors and browsers."""

    def __init__(self, bridge: Bridge, settings: Settings) -> None:
        self.bridge, self.settings = bridge, settings
        self.pictures = Pictures()
        self.hub = Hub(self._make_feed)
        self.directory = Directory(bridge, self._graph_changed)
        self.detectors: dict[str, DetectorState] = {}
        self.hub.on_first, self.hub.on_last = self._wake, self._sleep
        self._teaching: dict[str, TeachSession] = {}
        self._drawing: dict[str, DrawSession] = {}
        self._changed = False
        self._task: asyncio.Task[None] | None = None

    # Browsers come and go.

    def _wake(self) -> None:
        self.directory.start()
        self._task = self.bridge.loop.create_task(self._publish_changes())

    def _sleep(self) -> None:
        self.directory.stop()
        for state in self.detectors.values():
            state.close()
        self.detectors.clear()
        if self._task is not None:
            self._task.cancel()

    def camera(self, camera_id: str) -> Camera | None:
        """A camera that is there."""
        return self.directory.cameras.get(camera_id)

    def _make_feed(self, channel: str) -> Feed | None:
        """The feed of a channel: its kind, and of most kinds the name of a camera or node."""
        kind, _, name = channel.partition(":")
        bridge, publish = self.bridge, partial(self._publish_text, channel)
        makers: dict[str, Callable[[], Feed]] = {
            STATUS: lambda: Listening(self._graph_changed),
            "inbox": lambda: Listening(self._graph_changed),
            "knowledge": lambda: Listening(self._graph_changed),
            "light": lambda: LightFeed(bridge, self.directory, publish),
            "live": lambda: self._live_feed(channel, name),
            "teach": lambda: TeachFeed(self.teaching(name), publish),
            "draw": lambda: DrawFeed(bridge, self.drawing(name), publish),
            "areas": lambda: AreasFeed(self._images, name, partial(self._publish_image, channel)),
        }
        return makers[kind]() if kind in makers else None

    def _live_feed(self, channel: str, camera_id: str) -> LiveFeed:
        feed = LiveFeed(
            self.bridge,
            partial(self.camera, camera_id),
            self._images,
            partial(self._publish_image, channel),
        )
        feed.on_pair = partial(self._teach, camera_id)
        feed.on_image = partial(self._draw, camera_id)
        return feed

    def _images(self, camera: Camera) -> ImageSource:
        rate, side = self.settings.image_rate, self.settings.image_side
        return ImageSource(self.bridge, camera, rate, side)

    def teaching(self, detector: str) -> TeachSession:
        """What is being taught to a detector."""
        return _session(
            self._teaching, detector, lambda: TeachSession(self.bridge, detector, self.pictures)
        )

    def drawing(self, segmenter: str) -> DrawSession:
        """What is being drawn for a segmenter."""
        return _session(
            self._drawing, segmenter, lambda: DrawSession(self.bridge, segmenter, self.pictures)
        )

    def _draw(self, camera_id: str, rgb: Any) -> None:
        camera = self.camera(camera_id)
        for name in camera.segmenters if camera is not None else ():
            if name in self._drawing:
                self._drawing[name].newest = rgb

    def _teach(self, camera_id: str, rgb: Any, found: Any) -> None:
        camera = self.camera(camera_id)
        if camera is not None and camera.detector in self._teaching:
            self._teaching[camera.detector].offer(rgb, found)

    def _publish_text(self, channel: str, data: Any) -> None:
        self.hub.publish(channel, text_message(channel, data))

    def _publish_image(self, channel: str, data: dict[str, Any], jpeg: bytes) -> None:
        self.hub.publish(channel, image_message(channel, data, jpeg))

    # What changes.

    def _graph_changed(self) -> None:
        """Follow the nodes with a knowledge base that are there now."""
        cameras = self.directory.cameras.values()
        curators = {name: "" for camera in cameras for name in camera.segmenters}
        curators |= {camera.detector: camera.curator for camera in cameras if camera.detector}
        for name in [name for name in self.detectors if name not in curators]:
            self.detectors.pop(name).close()
        for name, curator in curators.items():
            if name not in self.detectors:
                state = DetectorState(self.bridge, name, self.pictures, self._note_change)
                self.detectors[name] = state
            self.detectors[name].listen(curator, self.hub.watched(f"inbox:{name}"))
        self._changed = True

    def _note_change(self) -> None:
        self._changed = True

    async def _publish_changes(self) -> None:
        """Several changes in a moment are one message."""
        while True:
            if self._changed:
                self._changed = False
                self._publish()
            await asyncio.sleep(PERIOD)

    def _publish(self) -> None:
        status = self.directory.report()
        for camera in status["cameras"]:
            state = self.detectors.get(camera["detector"])
            camera |= {"waiting": state.waiting() if state else 0}
        self.hub.publish(STATUS, text_message(STATUS, status))
        for name, state in self.detectors.items():
            for kind, content in (("inbox", state.inbox), ("knowledge", state.summary)):
                channel = f"{kind}:{name}"
                if self.hub.watched(channel):
                    self.hub.publish(channel, text_message(channel, content()))


def _session(sessions: dict[str, S], node: str, make: Callable[[], S]) -> S:
    """The session of a node; with too many of them the oldest goes."""
    if node not in sessions:
        if len(sessions) >= MAX_SESSIONS:
            sessions.pop(next(iter(sessions)))
        sessions[node] = make()
    return sessions[node]


class Listening:
    """The feed of a channel that is published as things change."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def start(self) -> None:
        """Have it published."""
        self._changed()

    def stop(self) -> None:
        """Listen to less."""
        self._changed()
