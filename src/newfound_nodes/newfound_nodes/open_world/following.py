# SPDX-License-Identifier: Apache-2.0
"""A detector that shares the knowledge base of another one, which owns it.

It reads each version that the owner switches to, and uses it from the next frame on. It changes
nothing: what it does not know it reports to the owner, who keeps it, asks and learns.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from newfound_core.detection.detector import Detector
from newfound_core.detection.same_object import View
from newfound_core.detection.unknown_objects import UnknownObject, UnknownState
from newfound_core.detection.unknown_store import UnknownStore
from newfound_core.errors import KnowledgeError, NewfoundError
from newfound_core.knowledge.contents import Knowledge, read_knowledge
from newfound_core.knowledge.knowledge_base import KnowledgeVersions
from newfound_core.models import check_device
from newfound_nodes.open_world.frame_session import FrameResult, FrameSession
from newfound_nodes.open_world.light import LightFollower
from newfound_nodes.open_world.session import SessionConfig, SessionEvents

_log = logging.getLogger(__name__)
WAIT = 30.0  # s that the owner may take to write its first version
_POLL, _RETRY = 0.1, 5.0  # s between two looks at the link `current`, and after a failure
_MOST_REPORTS = 1000  # that wait for the owner
Send = Callable[[UnknownObject], None]  # a report; the answer goes to `FollowingSession.answered`


class FollowingSession(FrameSession):
    """The state of a detector that reads the knowledge of another; own ids stay inside."""

    def __init__(
        self,
        config: SessionConfig,  # `root` is the owner's
        own_root: Path,  # for what is of this camera alone
        detector: Detector,
        events: SessionEvents,
        *,
        send: Send,
        wait: float = WAIT,
    ) -> None:
        super().__init__(detector, UnknownStore(config.unknowns, self), config.inference)
        self._events, self._send = events, send
        self._entries: dict[str, str] = {}  # own ids, and those of the owner
        self._reports: dict[str, UnknownObject] = {}  # not yet answered
        self._lock = threading.Lock()
        self._problem, self.warnings = "", []
        check_device(config.device)
        self._base = KnowledgeVersions(config.root, partial(read_knowledge, device=config.device))
        version, knowledge = self._first(wait)
        own_root.mkdir(parents=True, exist_ok=True)
        self.light = LightFollower(own_root, knowledge, config.light)
        self.light.switch(config.adapt)
        self.in_use = self._make_in_use(self._base, version, knowledge)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follow-knowledge", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all threads."""
        self._closing.set()
        self._thread.join()
        super().close()

    # Knowledge.

    def _first(self, wait: float) -> tuple[int, Knowledge]:
        """What the owner uses; both may have been started together."""
        until = time.monotonic() + wait
        while True:
            try:
                if (version := self._base.current) is not None:
                    return version, self._base.read(version)
                reason = "it has no version yet"
            except NewfoundError as error:
                reason = str(error)
            if time.monotonic() >= until:
                raise KnowledgeError(
                    f"the knowledge base {self._base.root} cannot be followed: {reason}. Is its "
                    "owner running, and does knowledge_base name the same folder for both?"
                )
            time.sleep(_POLL)

    def _follow(self) -> None:
        pause = _POLL
        while not self._closing.wait(pause):
            try:
                self._catch_up()
                self._problem, pause = "", _POLL
            except Exception as error:  # frames go on with the knowledge that is
                if not isinstance(error, NewfoundError):
                    _log.exception("following the knowledge base failed")
                self._problem = f"the owner's knowledge cannot be read: {error}"
                pause = _RETRY

    def _catch_up(self) -> None:
        version = self._base.current
        if version is None:
            raise KnowledgeError(f"{self._base.root} has no current version")
        if version == self.in_use.version:
            return
        before = self.in_use.knowledge.labels
        try:
            knowledge = self._base.read(version)
        except NewfoundError:
            if self._base.current != version:  # it was replaced, and removed, while it was read
                return
            raise
        self.in_use = self._make_in_use(self._base, version, knowledge)
        self._events.knowledge_changed(self.in_use)
        self._release_known(self.in_use, before)

    # Frames.

    def process(self, rgb: np.ndarray, depth: np.ndarray | None, view: View) -> FrameResult:
        """As by the owner; an unknown object has the owner's id, once that has answered."""
        result = super().process(rgb, depth, view)
        with self._lock:
            return replace(result, unknown_ids=[self._entries.get(i, "") for i in result.own_ids])

    # Reports.

    def unknown_changed(self, entry: UnknownObject) -> None:
        """An own entry is new, or has changed: to be reported."""
        with self._lock:
            self._reports.pop(entry.id, None)
            self._reports[entry.id] = entry
            while len(self._reports) > _MOST_REPORTS:
                self._reports.pop(next(iter(self._reports)))

    def storage_failed(self, message: str) -> None:
        """Nothing is stored here."""

    def tick(self) -> None:
        """Send what is to be reported; once a second."""
        super().tick()
        with self._lock:
            waiting = list(self._reports.values())
        for entry in waiting:
            # As it is now, its position included.
            now = self.unknown(entry.id) if entry.state == UnknownState.WAITING else None
            self._send(now or entry)

    def answered(self, own_id: str, sightings: int, unknown_id: str, state: UnknownState) -> None:
        """The owner has taken in a report, made after so many sightings."""
        with self._lock:
            if (report := self._reports.get(own_id)) and report.sightings <= sightings:
                del self._reports[own_id]
            if unknown_id:
                self._entries[own_id] = unknown_id
            else:
                self._entries.pop(own_id, None)
        if state == UnknownState.DISMISSED:
            self._unknowns.mark(own_id, state)
            with self._lock:
                self._reports.pop(own_id, None)  # the owner knows

    def problems(self) -> list[str]:
        """What a person should look at, a sentence each."""
        with self._lock:
            count = len(self._reports)
        late = f"{count} unknown objects wait to be reported to the owner" if count > 1 else ""
        return [each for each in (*super().problems(), self._problem, late) if each]
