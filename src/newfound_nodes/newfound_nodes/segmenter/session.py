# SPDX-License-Identifier: Apache-2.0
"""What the segmenter holds besides ROS: versions of its network, and learning jobs.

The network in use is a value that is replaced as a whole: a frame takes it once and is not
disturbed by a change. Requests come from any thread, jobs from the queue's.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from newfound_core.errors import DataError
from newfound_core.knowledge.knowledge_base import ClassNote
from newfound_core.knowledge.labels import find_label, label_problem, normalise_label
from newfound_core.knowledge.segments import (
    SegmentKnowledge,
    forgetting,
    from_checkpoint,
    read_segments,
    renaming,
)
from newfound_core.learning.job import Job, JobStatus, SegmentOptions
from newfound_core.models import LoadedModel
from newfound_core.packages import Package
from newfound_core.packages.segments import export_segment
from newfound_core.segmentation import BACKGROUND
from newfound_core.segmentation.label_image import MOST_CLASSES
from newfound_core.segmentation.segmenter import Segmenter
from newfound_nodes.knowledge.owner import KnowledgeConfig, KnowledgeOwner, new_name
from newfound_runtime.services import RequestError

Pairs = tuple[Mapping[str, bytes], Mapping[str, bytes]]  # images and their masks, by name


@dataclass(frozen=True)
class SegmentsInUse:
    """The network that labels pixels now."""

    version: int
    segmenter: Segmenter
    reference: Mapping[str, int]  # frames to check each class on
    since: float  # s since 1970, when it came into use
    classes: Mapping[str, ClassNote]
    restorable: list[int]  # earlier versions on disk


class SegmentEvents(Protocol):
    """What a session tells its owner, from any thread; must not call the session back."""

    def knowledge_changed(self, in_use: SegmentsInUse) -> None:
        """Another network labels pixels from now on."""
        ...

    def job_changed(self, status: JobStatus) -> None:
        """A learning job is somewhere else."""
        ...


@dataclass(frozen=True)
class SegmentConfig(KnowledgeConfig):
    """How a segmenter runs."""

    working_size: int = 0  # pixels of the network's input; 0: the checkpoint's


class SegmentSession(KnowledgeOwner[SegmentKnowledge]):
    """Owns the knowledge base; what is on disk and what is in use agree at every moment."""

    def __init__(self, config: SegmentConfig, events: SegmentEvents) -> None:
        self._config, self._events = config, events
        opened = self._open(config, partial(read_segments, device=config.device), from_checkpoint)
        try:
            self.warnings = opened.warnings
            self.in_use = self._make_in_use(opened.version, opened.content)
            self.jobs = self._queue(config)
        except BaseException:
            self._base.close()
            raise

    def start(self) -> None:
        """Take up the jobs that were left unfinished; from here on, the owner is called."""
        self.jobs.start()

    def close(self) -> None:
        """End all threads; a job at work is resumed by the next session."""
        self.jobs.close()
        self._base.close()

    # Requests: any thread. They raise a RequestError or another NewfoundError.

    def learn(
        self,
        label: str,
        pairs: Callable[[], Pairs],
        options: SegmentOptions,
        *,
        source: str = "request",
    ) -> tuple[str, int]:
        """Queue a job; returns its id and how many are before it.

        `pairs` gives images and masks that fit, or raises; called if the request gets that far.
        """
        with self._requests:  # two requests for one label must not both be granted
            self._base.check()
            label = self._label_to_learn(label)
            self.jobs.check_room()
            images, masks = pairs()
            sources = dict.fromkeys(images, source)
            return self.jobs.add(Job(label, options=options, sources=sources), images, masks)

    def _label_to_learn(self, label: str) -> str:
        label = normalise_label(label)
        if problem := label_problem(label):
            raise RequestError("INVALID_LABEL", problem)
        labels = self.in_use.segmenter.labels
        if (known := find_label(label, labels)) is not None:
            raise RequestError(
                "LABEL_EXISTS",
                f"a class {known!r} is known already: forget it first to learn it anew",
            )
        if (learning := find_label(label, self.jobs.labels())) is not None:
            raise RequestError("LABEL_EXISTS", f"{learning!r} is being learned already")
        if len(labels) + len(self.jobs.labels()) >= MOST_CLASSES:
            raise RequestError(
                "INVALID_LABEL", f"a mask of 8 bits has room for {MOST_CLASSES - 1} classes"
            )
        return label

    def export(self, label: str, robot: str) -> Package:
        """A class with what it was taught with, or with reference frames that show it."""
        return export_segment(self._base.folder(self.version()), self._known_label(label), robot)

    def forget(self, label: str) -> None:
        """Use knowledge without a class; its pixels go to the next best, mostly background."""
        with self._requests:
            self._base.check()
            label = self._known_label(label)
            write = forgetting(self._base.folder(self.in_use.version), label)
            self._change(write, f"forgot {label!r}")

    def rename(self, label: str, new_label: str) -> None:
        """Use knowledge in which a class has another name; its number in masks stays."""
        with self._requests:
            self._base.check()
            label = self._known_label(label)
            new_label = new_name(label, new_label, self.in_use.segmenter.labels)
            write = renaming(self._base.folder(self.in_use.version), label, new_label)
            self._change(write, f"renamed {label!r} to {new_label!r}", {label: new_label})

    def _known_label(self, label: str) -> str:
        labels, label = self.in_use.segmenter.labels, normalise_label(label)
        if label not in labels or label == BACKGROUND:
            known = ", ".join(labels[1:21])
            raise RequestError("UNKNOWN_LABEL", f"no class {label[:100]!r}; known: {known}")
        return label

    def problems(self) -> list[str]:
        """What a person should look at, a sentence each."""
        return [*self.warnings, *self._job_problems()]

    # For the learning queue, in its thread.

    def adopt(self, job: str, label: str, checkpoint: Path) -> int:
        """Use what a job has learned; return its version.

        A job that is looked at again has a version already. Unless that is newer than the one in
        use it stays unused: since then a class was forgotten, or an earlier version restored.
        """
        with self._changes:
            labels = self.in_use.segmenter.labels
            expected = labels if label in labels else (*labels, label)
            version = self._base.adopt(checkpoint, expected, f"learned {label!r}", job)
            if version <= self.in_use.version:
                return version

            def check(knowledge: SegmentKnowledge) -> None:
                if knowledge.labels != expected:  # their order is that of the masks' values
                    raise DataError(f"it knows {knowledge.labels}, expected {expected}")

            return self._use(version, check)

    def job_changed(self, status: JobStatus, job: Job | None) -> None:
        """A job is somewhere else."""
        if status.state.final:
            self._last_job = status
        self._events.job_changed(status)

    # Knowledge.

    def _use(self, version: int, check: Callable[[SegmentKnowledge], None] | None = None) -> int:
        knowledge = self._base.switch(version, check or (lambda _: None))
        self.in_use = self._make_in_use(version, knowledge)
        self._events.knowledge_changed(self.in_use)
        return version

    def _make_in_use(self, version: int, knowledge: SegmentKnowledge) -> SegmentsInUse:
        loaded = with_size(knowledge.loaded, self._config.working_size)
        note = self._base.note(version)
        return SegmentsInUse(
            version,
            Segmenter(loaded, self._config.inference),  # a back end takes seconds to make
            knowledge.reference,
            time.time(),
            note.classes if note else {},
            [other for other in self._base.versions() if other != version],
        )


def with_size(loaded: LoadedModel, size: int) -> LoadedModel:
    """The model at another size of its input; 0: as it was trained."""
    if not size:
        return loaded
    preprocessing = replace(loaded.metadata.preprocessing, size=size)
    return replace(loaded, metadata=replace(loaded.metadata, preprocessing=preprocessing))
