# SPDX-License-Identifier: Apache-2.0
"""Everything of the detector that is not ROS: knowledge, unknown objects, learning, one frame."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from newfound_core.detection.detector import Detection, Detector, looks_of
from newfound_core.detection.tracking import Tracker
from newfound_core.detection.unknown_object import UnknownObject
from newfound_core.detection.unknown_store import UnknownStore
from newfound_core.detection.unknowns import Unknowns, UnknownsConfig, View, looks_of_entries
from newfound_core.knowledge.contents import Knowledge
from newfound_core.open_world.job import LearningOptions
from newfound_nodes.open_world.job_folders import unknown_of
from newfound_nodes.open_world.job_status import JobStatus
from newfound_nodes.open_world.keeper import KnowledgeKeeper, Now
from newfound_nodes.open_world.learner_process import COMMAND
from newfound_nodes.open_world.learning_queue import LearningQueue, Switching
from newfound_nodes.open_world.requests import RefusedError, learning_job

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listener:
    """Who is told of what happens, from any thread."""

    knowledge: Callable[[Now], None]
    unknown: Callable[[UnknownObject], None]
    job: Callable[[JobStatus], None]


@dataclass(frozen=True)
class Seen:
    """What was found in a frame, and the knowledge that named it."""

    version: int
    found: list[Detection]
    tracks: list[int]
    unknown_ids: list[str]


@dataclass(frozen=True)
class MindConfig:
    """Where and how much."""

    root: Path
    shipped: Path | None
    device: str = "cpu"
    versions_kept: int = 10
    unknowns: UnknownsConfig = field(default_factory=UnknownsConfig)
    queue_limit: int = 10
    learning_patience: float = 600.0  # s that a learning process may be without progress
    learner: Sequence[str] = COMMAND


class Mind:
    """The state of a detector, kept consistent: frames in one thread, requests in others."""

    def __init__(self, config: MindConfig, detector: Detector, listener: Listener) -> None:
        self._detector, self._listener = detector, listener
        self._tracker = Tracker()
        self._unknowns = Unknowns(config.unknowns)
        self._lock = threading.Lock()  # of the unknowns
        self._requests = threading.Lock()
        self.keeper = KnowledgeKeeper(
            config.root,
            config.shipped,
            device=config.device,
            keep=config.versions_kept,
            look=self._look_again,
            changed=listener.knowledge,
        )
        self._used: Now | None = None  # by the last frame
        # Nothing of a frame's path waits for the disk.
        self._disk = ThreadPoolExecutor(1, "unknowns-to-disk")
        self.complaints = [*self.keeper.complaints]
        try:
            self._store = UnknownStore(config.root / "unknowns")
            self._restore_unknowns()
            switching = Switching(self._version, self.keeper.adopt, self._job_changed)
            self.queue = LearningQueue(
                config.root / "jobs",
                switching,
                limit=config.queue_limit,
                patience=config.learning_patience,
                command=config.learner,
            )
            self._release_orphans()
        except BaseException:
            self.keeper.close()
            raise

    def close(self) -> None:
        """End all threads; what was being learned is resumed by the next one."""
        self.queue.close()
        self._disk.shutdown()
        self.keeper.close()

    # Frames.

    def see(self, rgb: np.ndarray, depth: np.ndarray | None, view: View) -> Seen:
        """Find and name the objects of a frame; one thread only."""
        now = self.keeper.now
        if now is not self._used:
            self._begin_using(now)
        found = self._detector.detect(rgb, depth, now.knowledge)
        boxes = np.stack([d.box for d in found]) if found else np.zeros((0, 4), np.float32)
        looks = np.stack([d.look for d in found]) if found else np.zeros((0, 0), np.float32)
        tracks = self._tracker.update(boxes, looks).tolist()
        with self._lock:
            reports = self._unknowns.update(view, found, tracks, self._tracker.tracks)
            ids = [self._unknowns.id_of(track) for track in tracks]
        for report in reports:
            self._tell(report)
        return Seen(now.version, found, tracks, ids)

    def _begin_using(self, now: Now) -> None:
        """Between two frames: from here on the new network sees, and looks are its looks."""
        if self._used is not None:
            self._tracker.forget_looks()
        with self._lock:
            self._unknowns.use_looks(now.looks)
        self._used = now

    # Requests.

    def learn(
        self, request: Any, options: LearningOptions, *, extend: bool = False
    ) -> tuple[str, int]:
        """Queue what a request asks for; job id and jobs before it. Raises RefusedError.

        `extend`: a known class may be given further views.
        """
        known = () if extend else self.keeper.now.knowledge.labels
        with self._requests:  # two requests for one label must not both be granted
            self.queue.check_room()  # before images are decoded
            job, images = learning_job(request, known, self.queue.labels(), self.unknown, options)
            name, before = self.queue.add(job, images)
            self._mark(unknown_of(job), "learning", job.label)
        return name, before

    def dismiss(self, unknown_id: str) -> None:
        """Do not announce an unknown object again; raises RefusedError."""
        with self._requests:  # it must not begin to be learned meanwhile
            entry = self.unknown(unknown_id)
            if entry is None:
                reason = f"no unknown object has the id {unknown_id[:60]!r}"
                raise RefusedError("UNKNOWN_ID", reason)
            if entry.state == "learning":
                raise RefusedError("BUSY", f"it is being learned as {entry.label!r}")
            self._mark(unknown_id, "dismissed")

    def unknown(self, unknown_id: str) -> UnknownObject | None:
        """The entry of an unknown object."""
        with self._lock:
            return self._unknowns.get(unknown_id)

    def unknowns(self) -> list[UnknownObject]:
        """All unknown objects."""
        with self._lock:
            return self._unknowns.all()

    def expire(self) -> None:
        """Remove unknown objects that were not seen for too long."""
        with self._lock:
            expired = self._unknowns.expire(time.time())
        for entry in expired:
            self._tell(entry)

    # Inside.

    def _version(self) -> int:
        return self.keeper.now.version

    def _look_again(self, knowledge: Knowledge) -> dict[str, np.ndarray]:
        return looks_of_entries(self.unknowns(), lambda crops: looks_of(knowledge, crops))

    def _restore_unknowns(self) -> None:
        entries, complaints = self._store.load()
        self.complaints += complaints
        self._unknowns.restore(entries)
        looks = self._look_again(self.keeper.now.knowledge)
        self._unknowns.use_looks(looks)
        self.keeper.remember_looks(looks)

    def _release_orphans(self) -> None:
        """Unknown objects whose job ended unnoticed are learned, or wait again."""
        learning, known = self.queue.labels(), self.keeper.now.knowledge.labels
        for entry in self.unknowns():
            if entry.state == "learning" and entry.label not in learning:
                learned = entry.label in known
                self._mark(entry.id, "learned" if learned else "waiting", entry.label * learned)

    def _job_changed(self, status: JobStatus) -> None:
        if status.final:
            learned = status.stage == "done"
            state, label = ("learned", status.label) if learned else ("waiting", "")
            self._mark(self.queue.folders.unknown_id(status.job), state, label)
        self._listener.job(status)

    def _mark(self, unknown_id: str, state: Any, label: str = "") -> bool:
        with self._lock:
            entry = self._unknowns.mark(unknown_id, state, label)
        if entry is not None:
            self._tell(entry)
        return entry is not None

    def _tell(self, entry: UnknownObject) -> None:
        self._disk.submit(self._to_disk, entry)
        self._listener.unknown(entry)

    def _to_disk(self, entry: UnknownObject) -> None:
        try:
            if entry.state in ("learned", "expired"):
                self._store.remove(entry.id)
            else:
                self._store.save(entry)
        except OSError as error:
            _log.error("unknown object %s could not be stored: %s", entry.id, error)
