# SPDX-License-Identifier: Apache-2.0
"""A knowledge base and the learning jobs that change it: common to detector and segmenter.

Requests come from any thread, events of jobs from the queue's. One request at a time, and one
change of the knowledge at a time.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from newfound_core.inference import InferenceConfig
from newfound_core.knowledge.knowledge_base import KnowledgeBase, Opened, VersionNote
from newfound_core.knowledge.labels import find_label, label_problem, normalise_label
from newfound_core.learning.job import Job, JobState, JobStatus
from newfound_core.models import check_device
from newfound_core.packages import Package
from newfound_nodes.knowledge.learning_queue import COMMAND, LearningQueue
from newfound_runtime.services import RequestError

K = TypeVar("K")  # what is made of a version


def new_name(label: str, new_label: str, labels: Iterable[str]) -> str:
    """The name that one of the labels may get, normalised; a RequestError otherwise."""
    new_label = normalise_label(new_label)
    if problem := label_problem(new_label):
        raise RequestError("INVALID_LABEL", problem)
    others = [known for known in labels if known != label]
    if (taken := find_label(new_label, others)) is not None or new_label == label:
        raise RequestError("LABEL_EXISTS", f"a class {taken or label!r} is known already")
    return new_label


@dataclass(frozen=True)
class KnowledgeConfig:
    """Where things are, and how much is kept."""

    root: Path  # of the knowledge base
    shipped: Path | None  # checkpoint that becomes the first version
    device: str = "cpu"
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    versions_kept: int = 10
    queue_limit: int = 10
    learning_timeout: float = 600.0  # s that a learning process may be without progress
    learner: Sequence[str] = COMMAND


class KnowledgeOwner(ABC, Generic[K]):
    """A subclass makes `in_use` of a version, and is the owner of its jobs."""

    jobs: LearningQueue
    in_use: Any  # has the number of its `version`

    def _open(
        self,
        config: KnowledgeConfig,
        read: Callable[[Path], K],
        write: Callable[[Path], Callable[[Path], Iterable[str]]],
    ) -> Opened[K]:
        """Open the knowledge base; `write` makes the first version of a checkpoint."""
        self._requests = threading.RLock()
        self._changes = threading.Lock()
        self._last_job: JobStatus | None = None
        check_device(config.device)  # or else no version could be read, for another reason
        self._base = KnowledgeBase(config.root, read, config.versions_kept)
        try:
            return self._base.open(write(config.shipped) if config.shipped else None)
        except BaseException:
            self._base.close()
            raise

    def _queue(self, config: KnowledgeConfig, in_process: int | None = None) -> LearningQueue:
        """The queue of jobs, not started."""
        return LearningQueue(
            config.root / "jobs",
            self,
            limit=config.queue_limit,
            timeout=config.learning_timeout,
            command=config.learner,
            in_process=in_process,
        )

    def version(self) -> int:
        """The version in use."""
        return self.in_use.version

    def versions(self) -> list[tuple[int, VersionNote]]:
        """Every version on disk, oldest first, and how it came about."""
        return [(v, self._base.note(v) or VersionNote("", 0.0)) for v in self._base.versions()]

    def restore(self, version: int) -> None:
        """Use an earlier version again, as a new one that is its copy."""
        with self._requests:
            self._base.check()
            self._check_idle()
            with self._changes:
                self._use(self._base.copy(version))

    def _change(
        self,
        write: Callable[[Path], Iterable[str]],
        reason: str,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        """Use a new version, while no class is being learned; with `_requests` held."""
        self._check_idle()
        with self._changes:
            self._use(self._base.add(write, reason, renamed))

    @abstractmethod
    def export(self, label: str, robot: str) -> Package:
        """A class with the images to learn it from."""

    @abstractmethod
    def forget(self, label: str) -> None:
        """Use knowledge without a class."""

    @abstractmethod
    def rename(self, label: str, new_label: str) -> None:
        """Use knowledge in which a class has another name."""

    @abstractmethod
    def _use(self, version: int) -> int:
        """Let a version on disk take over; returns its number."""

    @abstractmethod
    def adopt(self, job: str, label: str, checkpoint: Path) -> int:
        """Use what a job has learned; return its version. In the queue's thread."""

    @abstractmethod
    def job_changed(self, status: JobStatus, job: Job | None) -> None:
        """A job is somewhere else; `job` is None if its folder is damaged."""

    def _check_idle(self) -> None:
        if self.jobs.busy:
            reason = "a class is being learned: wait for it, or call ~/cancel_learning"
            raise RequestError("BUSY", reason)

    def errors(self) -> list[str]:
        """What keeps what is learned from being kept, a sentence each."""
        problem = self._base.problem()
        return [problem] if problem else []

    def _job_problems(self) -> list[str]:
        job = self._last_job
        if job is None or job.state not in (JobState.FAILED, JobState.REJECTED):
            return []
        return [f"learning {job.label!r} {job.state}: {job.message}"]
