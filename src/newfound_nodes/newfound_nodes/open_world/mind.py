# SPDX-License-Identifier: Apache-2.0
"""Everything of the detector that is not ROS: knowledge, unknown objects, learning, one frame."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from newfound_core.detection.detector import (
    Detection,
    Detector,
    looks_of,
    names_of,
    same_network,
)
from newfound_core.detection.second_look import looks_of_entries, names_of_entries
from newfound_core.detection.tracking import Tracker, TrackerConfig
from newfound_core.detection.unknown_object import State, UnknownObject
from newfound_core.detection.unknowns import UnknownsConfig, View
from newfound_core.knowledge.contents import Knowledge
from newfound_core.open_world.job import LearningOptions
from newfound_nodes.open_world.job_folders import JobFolders, unknown_of
from newfound_nodes.open_world.job_status import JobStatus
from newfound_nodes.open_world.keeper import KnowledgeKeeper, Now
from newfound_nodes.open_world.learner_process import COMMAND
from newfound_nodes.open_world.learning_queue import LearningQueue, Switching
from newfound_nodes.open_world.requests import RefusedError, learning_job
from newfound_nodes.open_world.unknown_keeper import UnknownKeeper

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listener:
    """Who is told of what happens, from any thread; must not call the mind back."""

    knowledge: Callable[[Now], None]
    unknown: Callable[[UnknownObject], None]
    job: Callable[[JobStatus], None]
    complaint: Callable[[str], None] = _log.error  # the disk refuses


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
        # Twice the regions of a frame: those that were lost for a moment come back.
        tracks = max(TrackerConfig().max_tracks, 2 * detector.config.max_regions)
        self._tracker = Tracker(TrackerConfig(max_tracks=tracks))
        self._unknowns = UnknownKeeper(
            config.unknowns, listener.unknown, complain=listener.complaint
        )
        self._requests = threading.RLock()
        self.keeper = KnowledgeKeeper(
            config.root,
            config.shipped,
            device=config.device,
            keep=config.versions_kept,
            look=self._look_again,
            changed=self._knowledge_changed,
        )
        self._used: Now | None = None  # by the last frame
        self._labels = set(self.keeper.now.knowledge.labels)
        self._last_job: JobStatus | None = None
        self.complaints = [*self.keeper.complaints]
        try:
            self._restore_unknowns(config.root / "unknowns")
            self._jobs = JobFolders(config.root / "jobs")
            self._agree_with_jobs()
            # Last, because its thread calls us.
            switching = Switching(self._version, self.keeper.adopt, self._job_changed)
            self.queue = LearningQueue(
                config.root / "jobs",
                switching,
                limit=config.queue_limit,
                patience=config.learning_patience,
                command=config.learner,
            )
        except BaseException:
            self.keeper.close()
            raise

    def close(self) -> None:
        """End all threads; what was being learned is resumed by the next one."""
        self.queue.close()
        self._unknowns.close()
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
        ids = self._unknowns.see(view, found, tracks, self._tracker.tracks)
        return Seen(now.version, found, tracks, ids)

    def _begin_using(self, now: Now) -> None:
        """Between two frames: from here on the new network sees, and looks are its looks."""
        same = self._used is not None and same_network(self._used.knowledge, now.knowledge)
        if not same:
            self._tracker.forget_looks()
        self._unknowns.use_looks(now.looks, same_network=same)
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
            self._unknowns.mark(unknown_of(job), "learning", job.label)
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
            self._unknowns.mark(unknown_id, "dismissed")

    def unknown(self, unknown_id: str) -> UnknownObject | None:
        """The entry of an unknown object."""
        return self._unknowns.get(unknown_id)

    def unknowns(self) -> list[UnknownObject]:
        """All unknown objects."""
        return self._unknowns.all()

    def tell(self, unknown_id: str) -> None:
        """Tell of an unknown object again."""
        self._unknowns.tell(unknown_id)

    def troubles(self) -> list[str]:
        """What a person should look at, a sentence each."""
        found = [*self.complaints, self._unknowns.trouble()]
        job = self._last_job
        if job is not None and job.stage in ("failed", "rejected"):
            found.append(f"learning {job.label!r} {job.stage}: {job.message}")
        return [trouble for trouble in found if trouble]

    def tidy(self) -> None:
        """Now and then: let go of unknown objects that are too old, store what has changed."""
        self._unknowns.tidy()

    # Inside.

    def _version(self) -> int:
        return self.keeper.now.version

    def _look_again(self, knowledge: Knowledge) -> dict[str, np.ndarray]:
        return looks_of_entries(self.unknowns(), lambda crops: looks_of(knowledge, crops))

    def _restore_unknowns(self, folder: Path) -> None:
        self.complaints += self._unknowns.open(folder)
        looks = self._look_again(self.keeper.now.knowledge)
        self._unknowns.use_looks(looks)
        self.keeper.remember_looks(looks)

    def _knowledge_changed(self, now: Now) -> None:
        self._listener.knowledge(now)
        new = set(now.knowledge.labels) - self._labels
        self._labels = set(now.knowledge.labels)
        if new:
            self._release_known(now.knowledge, new)

    def _release_known(self, knowledge: Knowledge, new: set[str]) -> None:
        """Other unknown objects may be of a class that was just learned."""
        waiting = [entry for entry in self.unknowns() if entry.state == "waiting"]
        names = names_of_entries(waiting, lambda crops: names_of(knowledge, crops))
        for unknown_id, label in names.items():
            if label in new:
                self._unknowns.release(unknown_id, label)

    def _agree_with_jobs(self) -> None:
        """Unknown objects are being learned if a job says so: it is written before they are."""
        jobs = {job: self._jobs.label(job) for job in self._jobs.unfinished()}
        for job, label in jobs.items():
            self._unknowns.mark(self._jobs.unknown_id(job), "learning", label)
        known = self.keeper.now.knowledge.labels
        for entry in self.unknowns():
            if entry.state == "learning" and entry.label not in jobs.values():
                learned = entry.label in known  # the job ended, and nobody was there to note it
                state: State = "learned" if learned else "waiting"
                self._unknowns.mark(entry.id, state, entry.label * learned)

    def _job_changed(self, status: JobStatus) -> None:
        if status.final:
            self._last_job = status
            learned = status.stage == "done"
            state: State = "learned" if learned else "waiting"
            with self._requests:  # a job may end before whoever asked for it has marked its object
                unknown_id = self._jobs.unknown_id(status.job)
                self._unknowns.mark(unknown_id, state, status.label * learned)
        self._listener.job(status)
