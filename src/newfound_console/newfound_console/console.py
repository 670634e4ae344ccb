# SPDX-License-Identifier: Apache-2.0
"""Everything behind the pages, in the server's event loop: what is watched, and what is done."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from newfound_console.bridge import Bridge
from newfound_console.detectors import DetectorState
from newfound_console.directory import Camera, Directory
from newfound_console.hub import Feed, Hub, image_message, text_message
from newfound_console.light import LightFeed
from newfound_console.live import ImageSource, LiveFeed
from newfound_console.pictures import Pictures
from newfound_console.teaching import TeachFeed, TeachSession

STATUS = "status"  # channel: cameras, nodes, questions; watched by every page
MAX_SESSIONS = 20  # of teaching, one for each detector
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
        kind, _, name = channel.partition(":")
        if channel == STATUS:
            return Listening(self._graph_changed)
        if kind == "live":
            return self._live_feed(channel, name)
        if channel == "light":
            return LightFeed(self.bridge, self.directory, partial(self._publish_text, channel))
        if kind == "teach":
            publish = partial(self._publish_text, channel)
            return TeachFeed(self.teaching(name), publish)
        if kind in ("inbox", "knowledge"):
            return Listening(self._graph_changed)
        return None

    def _live_feed(self, channel: str, camera_id: str) -> LiveFeed:
        def publish(data: dict[str, Any], jpeg: bytes) -> None:
            self.hub.publish(channel, image_message(channel, data, jpeg))

        feed = LiveFeed(
            self.bridge,
            partial(self.camera, camera_id),
            lambda camera: ImageSource(
                self.bridge, camera, self.settings.image_rate, self.settings.image_side
            ),
            publish,
        )
        feed.on_pair = partial(self._teach, camera_id)
        return feed

    def teaching(self, detector: str) -> TeachSession:
        """What is being taught to a detector."""
        if detector not in self._teaching:
            if len(self._teaching) >= MAX_SESSIONS:
                self._teaching.pop(next(iter(self._teaching)))
            self._teaching[detector] = TeachSession(self.bridge, detector, self.pictures)
        return self._teaching[detector]

    def _teach(self, camera_id: str, rgb: Any, found: Any) -> None:
        camera = self.camera(camera_id)
        if camera is not None and camera.detector in self._teaching:
            self._teaching[camera.detector].offer(rgb, found)

    def _publish_text(self, channel: str, data: Any) -> None:
        self.hub.publish(channel, text_message(channel, data))

    # What changes.

    def _graph_changed(self) -> None:
        """Follow the detectors that are there now."""
        present = {c.detector: c for c in self.directory.cameras.values() if c.detector}
        for name in [name for name in self.detectors if name not in present]:
            self.detectors.pop(name).close()
        for name, camera in present.items():
            if name not in self.detectors:
                state = DetectorState(self.bridge, name, self.pictures, self._note_change)
                self.detectors[name] = state
            self.detectors[name].listen(camera.curator, self.hub.watched(f"inbox:{name}"))
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
