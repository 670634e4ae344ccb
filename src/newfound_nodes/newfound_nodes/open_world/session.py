# SPDX-License-Identifier: Apache-2.0
"""What the open-world detector holds besides ROS: knowledge, unknown objects, learning jobs.

Frames come from one thread, requests from others, job events from the queue's thread.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from torch import Tensor

from newfound_core.checkpoint import MEMORY_NAME
from newfound_core.detection.detector import Detector, embed_crops
from newfound_core.detection.light_shift import LightShiftConfig
from newfound_core.detection.reported_unknowns import ReportedUnknowns
from newfound_core.detection.unknown_objects import UnknownObject, UnknownState
from newfound_core.detection.unknown_store import UnknownsConfig, UnknownStore
from newfound_core.errors import DataError, NewfoundError
from newfound_core.knowledge.contents import (
    Knowledge,
    from_checkpoint,
    read_knowledge,
    renamed_class,
    without_class,
    write_learned_in,
)
from newfound_core.knowledge.labels import (
    find_label,
    label_problem,
    normalise_label,
    same_label,
)
from newfound_core.learning.job import Job, JobState, JobStatus, LearningOptions
from newfound_core.open_world.memory import Memory
from newfound_core.open_world.memory_store import encoded, load_memory, sample_id
from newfound_core.packages import Package
from newfound_core.packages.classes import export_class
from newfound_nodes.knowledge.owner import KnowledgeConfig, KnowledgeOwner, new_name
from newfound_nodes.open_world.frame_session import FrameSession, KnowledgeInUse
from newfound_nodes.open_world.light import LightFollower, decode_shift, encode_shift
from newfound_runtime.services import RequestError

FEWEST_IMAGES = 2  # one to learn from, one to hold out


class SessionEvents(Protocol):
    """What a session tells its owner, from any thread; must not call the session back."""

    def knowledge_changed(self, in_use: KnowledgeInUse) -> None:
        """Other knowledge labels frames from now on."""
        ...

    def unknown_changed(self, entry: UnknownObject) -> None:
        """An unknown object is new, or has changed."""
        ...

    def job_changed(self, status: JobStatus) -> None:
        """A learning job is somewhere else."""
        ...

    def storage_failed(self, message: str) -> None:
        """The disk refuses."""
        ...


@dataclass(frozen=True)
class SessionConfig(KnowledgeConfig):
    """How a detector labels, remembers and learns."""

    unknowns: UnknownsConfig = field(default_factory=UnknownsConfig)
    learn_in_process: int | None = None  # niceness of threads for jobs that do not train
    light: LightShiftConfig = field(default_factory=LightShiftConfig)
    adapt: bool = False  # whether learned classes follow the light from the start


class OpenWorldSession(KnowledgeOwner[Knowledge], FrameSession):
    """The state of a detector that owns its knowledge, kept consistent on disk and in memory."""

    def __init__(self, config: SessionConfig, detector: Detector, events: SessionEvents) -> None:
        FrameSession.__init__(
            self, detector, UnknownStore(config.unknowns, events), config.inference
        )
        self._events = events
        self._reported = ReportedUnknowns(self._unknowns)
        read = partial(read_knowledge, device=config.device)
        opened = self._open(config, read, from_checkpoint)
        try:
            self.warnings = [*opened.warnings, *self._unknowns.open(config.root / "unknowns")]
            self.light = LightFollower(config.root, opened.content, config.light)
            self.light.switch(config.adapt)
            self.in_use = self._make_in_use(self._base, opened.version, opened.content)
            self._unknowns.use_embeddings(self.in_use.unknown_embeddings)
            self.jobs = self._queue(config, config.learn_in_process)
            self._agree_with_jobs()
            self.jobs.start()  # last, because its thread calls us
        except BaseException:
            self._base.close()
            raise

    def close(self) -> None:
        """End all threads; a job at work is resumed by the next session."""
        self.jobs.close()
        super().close()
        self._base.close()

    # Requests: any thread. They raise a RequestError or another NewfoundError.

    def learn(
        self,
        label: str,
        unknown_id: str,
        images: Callable[[], tuple[Mapping[str, bytes], str]],
        options: LearningOptions,
        *,
        extend: bool = False,
        source: str = "",
    ) -> tuple[str, int]:
        """Queue a job; returns its id and how many are before it.

        `images` gives those of the request that can be used, and what is wrong with the others;
        it is called if the request gets that far. `extend`: a known class may be given further
        views. `source`: where the images come from, if they were not taken here and now.
        """
        with self._requests:  # two requests for one label must not both be granted
            self._base.check()
            if not self.in_use.knowledge.can_learn:
                raise RequestError(
                    "NOT_READY", "the model came without a memory: it would forget what it knows"
                )
            label = self._label_to_learn(label, extend)
            self.jobs.check_room()
            unknown_id, crops = self._crops(unknown_id) if unknown_id else ("", {})
            given, problem = images()
            found = {**crops, **given}
            if len(found) < FEWEST_IMAGES:
                reason = (
                    f"{len(found)} usable images, at least {FEWEST_IMAGES} are needed. {problem}"
                )
                raise RequestError("BAD_IMAGES", reason.strip())
            sources = dict.fromkeys(crops, f"unknown {unknown_id}")
            sources |= dict.fromkeys(given, source or "request")
            light = "" if source else encode_shift(self.light.shift())
            job = Job(label, options=options, sources=sources, unknown_id=unknown_id, light=light)
            name, before = self.jobs.add(job, found)
            self._unknowns.mark(unknown_id, UnknownState.LEARNING, label)
        return name, before

    def _label_to_learn(self, label: str, extend: bool) -> str:
        label = normalise_label(label)
        if problem := label_problem(label):
            raise RequestError("INVALID_LABEL", problem)
        known = find_label(label, self.in_use.knowledge.labels)
        if known is not None and not extend:
            raise RequestError(
                "LABEL_EXISTS",
                f"a class {known!r} is known already: `extend` in the request, or the parameter "
                "extend_known, adds the views to it",
            )
        if (learning := find_label(label, self.jobs.labels())) is not None:
            raise RequestError("LABEL_EXISTS", f"{learning!r} is being learned already")
        return known or label

    def _crops(self, unknown_id: str) -> tuple[str, dict[str, bytes]]:
        """The id under which the object is kept now, and its views."""
        entry = self._entry(unknown_id)
        if entry.state == UnknownState.LEARNING:
            raise RequestError("LABEL_EXISTS", f"it is being learned already, as {entry.label!r}")
        crops = {f"crop_{number:03d}.jpg": c.image for number, c in enumerate(entry.crops)}
        return entry.id, crops

    def export(self, label: str, robot: str) -> Package:
        """A class with its remembered images."""
        return export_class(self._base.folder(self.version()), self._known_label(label), robot)

    def dismiss(self, unknown_id: str) -> None:
        """Do not announce an unknown object again."""
        with self._requests:  # it must not begin to be learned meanwhile
            self._base.check()
            entry = self._entry(unknown_id)
            if entry.state == UnknownState.LEARNING:
                raise RequestError("BUSY", f"it is being learned as {entry.label!r}")
            self._unknowns.mark(unknown_id, UnknownState.DISMISSED)

    def forget(self, label: str) -> None:
        """Use knowledge without a class."""
        with self._requests:
            self._base.check()
            labels, label = self.in_use.knowledge.labels, self._known_label(label)
            if len(labels) == 1 and not self.in_use.knowledge.model.head.has_background:
                raise RequestError("LAST_CLASS", "it is the only class: one has to stay")
            write = without_class(self._base.folder(self.in_use.version), label)
            self._change(write, f"forgot {label!r}")

    def rename(self, label: str, new_label: str) -> None:
        """Use knowledge in which a class has another name."""
        with self._requests:
            self._base.check()
            label = self._known_label(label)
            new_label = new_name(label, new_label, self.in_use.knowledge.labels)
            write = renamed_class(self._base.folder(self.in_use.version), label, new_label)
            self._change(write, f"renamed {label!r} to {new_label!r}", {label: new_label})

    def relearn(self, label: str, ids: Collection[str], options: LearningOptions) -> str:
        """Queue a job that learns a class anew, without some of its images; returns its id."""
        with self._requests:
            self._base.check()
            label = self._known_label(label)
            if find_label(label, self.jobs.labels()) is not None:
                raise RequestError("LABEL_EXISTS", f"{label!r} is being learned")
            knowledge = self.in_use.knowledge
            if len(knowledge.labels) == 1 and not knowledge.model.head.has_background:
                raise RequestError("LAST_CLASS", "it is the only class: one has to stay")
            stored = self.remembered().samples(label)
            names = {sample_id(sample): sample for sample in stored}
            if missing := set(ids) - names.keys():
                raise RequestError("UNKNOWN_ID", f"no image of {label!r} is {min(missing)[:70]!r}")
            kept = [sample for name, sample in names.items() if name not in ids]
            if len(kept) < FEWEST_IMAGES:
                reason = f"{len(kept)} images of {label!r} would be left, {FEWEST_IMAGES} must be"
                raise RequestError("BAD_IMAGES", reason)
            images = {f"image_{n:03d}.{e}": i for n, (i, e) in enumerate(map(encoded, kept))}
            sources = {name: sample.source for name, sample in zip(images, kept, strict=True)}
            job = Job(label, options=options, sources=sources, anew=True)
            return self.jobs.add(job, images)[0]

    def merge(self, unknown_id: str, other_id: str) -> str:
        """Take two unknown objects for one; returns the id that stays."""
        with self._requests:
            self._base.check()
            for each in (unknown_id, other_id):
                if (entry := self._entry(each)).state == UnknownState.LEARNING:
                    raise RequestError("BUSY", f"it is being learned as {entry.label!r}")
            try:
                return self._unknowns.merge(unknown_id, other_id)
            except KeyError:
                raise RequestError("UNKNOWN_ID", "both are the same object already") from None

    def report(self, reporter: str, run: str, seen: UnknownObject) -> UnknownObject | None:
        """Take in an unknown object of a detector that follows; the entry that it is here."""
        self._base.check()
        in_use = self.in_use

        def embed(crop: np.ndarray) -> np.ndarray:
            return embed_crops(in_use.knowledge, [crop], in_use.embedder)[0]

        return self._reported.take(reporter, run, seen, embed)

    def knowledge_of(self, version: int) -> Knowledge:
        """The knowledge of a version on disk; 0 is the one in use."""
        if version in (0, self.in_use.version):
            return self.in_use.knowledge
        if version not in self._base.versions():
            raise RequestError("UNKNOWN_VERSION", f"there is no version {version}")
        try:
            return self._base.read(version)
        except NewfoundError as error:
            raise RequestError("DAMAGED", f"version {version} cannot be read: {error}") from error

    def remembered(self) -> Memory:
        """The images that are remembered of the classes in use."""
        if not self.in_use.knowledge.can_learn:
            return Memory()
        return load_memory(self._base.folder(self.in_use.version) / MEMORY_NAME)

    def _known_label(self, label: str) -> str:
        labels, label = self.in_use.knowledge.labels, normalise_label(label)
        if label not in labels:
            known = ", ".join(labels[:20])
            raise RequestError("UNKNOWN_LABEL", f"no class {label[:100]!r}; known: {known}")
        return label

    def problems(self) -> list[str]:
        """What else a person should look at, a sentence each."""
        return [*super().problems(), *self._job_problems()]

    def learning(self) -> set[str]:
        """Labels of the classes that are being learned, or will be."""
        return self.jobs.labels()

    def _entry(self, unknown_id: str) -> UnknownObject:
        entry = self._unknowns.get(unknown_id)
        if entry is None:
            reason = f"no unknown object has the id {unknown_id[:60]!r}"
            raise RequestError("UNKNOWN_ID", reason)
        return entry

    # For the learning queue, in its thread.

    def adopt(self, job: str, label: str, checkpoint: Path) -> int:
        """Use what a job has learned; return its version.

        A job that is looked at again has a version already. Unless that is newer than the one in
        use it stays unused: since then a class was forgotten, or an earlier version restored.
        """
        with self._changes:
            expected = [*self.in_use.knowledge.labels]
            expected += [] if label in expected else [label]
            if checkpoint.is_dir():
                write_learned_in(checkpoint, self._learned_in(job, label))
            version = self._base.adopt(checkpoint, expected, f"learned {label!r}", job)
            if version <= self.in_use.version:
                return version

            def check(knowledge: Knowledge) -> None:
                if sorted(knowledge.labels) != sorted(expected):
                    raise DataError(f"it knows {knowledge.labels}, expected {expected}")

            return self._use(version, check)

    def _learned_in(self, name: str, label: str) -> Mapping[str, Tensor]:
        """The lights that classes were learned in, once a job's result is in use."""
        job, knowledge = self.jobs.folders.job(name), self.in_use.knowledge
        if job is not None and job.anew and not job.options.trains:
            return knowledge.learned_in  # its images are those it was learned from before
        if job is None or job.options.trains:  # another network: its embeddings are others, too
            return {}
        shift = decode_shift(job.light, knowledge.model.head.dimension)
        if (before := knowledge.learned_in.get(label)) is not None:
            # Further views move the mean by their number, and what it was learned in as well.
            index = knowledge.labels.index(label)
            old, new = float(knowledge.model.head.means.count[index]), len(job.sources)
            shift = (old * before + new * shift) / max(1.0, old + new)
        known = label in knowledge.labels and before is None
        return {**knowledge.learned_in, **({} if known else {label: shift})}

    def job_changed(self, status: JobStatus, job: Job | None) -> None:
        """A job is somewhere else; a final one decides what becomes of its unknown object."""
        if status.state.final:
            self._last_job = status
            learned = status.state is JobState.DONE
            state = UnknownState.LEARNED if learned else UnknownState.WAITING
            with self._requests:  # a job may end before the request has marked its object
                if job is not None:
                    self._unknowns.mark(job.unknown_id, state, status.label * learned)
        self._events.job_changed(status)

    # Knowledge.

    def _use(self, version: int, check: Callable[[Knowledge], None] = lambda _: None) -> int:
        before = self.in_use.knowledge.labels
        knowledge = self._base.switch(version, check)
        self.in_use = self._make_in_use(self._base, version, knowledge)
        self._events.knowledge_changed(self.in_use)
        self._release_known(self.in_use, before)
        return version

    def _agree_with_jobs(self) -> None:
        """An unknown object is being learned if a job says so: jobs are written first."""
        jobs = [job for job in self.jobs.folders.unfinished().values() if job is not None]
        for job in jobs:
            self._unknowns.mark(job.unknown_id, UnknownState.LEARNING, job.label)
        for entry in self.unknowns():
            if entry.state != UnknownState.LEARNING:
                continue
            if any(same_label(entry.label, job.label) for job in jobs):
                continue
            # The job ended, and the process was killed before it could note it.
            learned = entry.label in self.in_use.knowledge.labels
            state = UnknownState.LEARNED if learned else UnknownState.WAITING
            self._unknowns.mark(entry.id, state, entry.label * learned)
