# SPDX-License-Identifier: Apache-2.0
"""Frames labelled with the knowledge in use, and the unknown objects among them.

What is common to a detector that owns its knowledge (`session`) and one that follows another's
(`following`). The knowledge in use is a value that is replaced as a whole: a frame takes it once
and is not disturbed by a change.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from newfound_core.detection.backend_embedding import BackendEmbedder
from newfound_core.detection.detector import (
    Detection,
    Detector,
    embed_crops,
    label_crops,
    same_network,
)
from newfound_core.detection.embedding import Embedder, PlainEmbedder
from newfound_core.detection.same_object import View
from newfound_core.detection.tracking import Tracker, TrackerConfig
from newfound_core.detection.unknown_objects import (
    UnknownObject,
    UnknownState,
    embed_unknowns,
    label_unknowns,
)
from newfound_core.detection.unknown_store import UnknownStore
from newfound_core.inference import InferenceConfig
from newfound_core.knowledge.contents import Knowledge
from newfound_core.knowledge.knowledge_base import ClassNote, KnowledgeVersions
from newfound_nodes.open_world.light import LightFollower


@dataclass(frozen=True)
class KnowledgeInUse:
    """The knowledge that labels frames now."""

    version: int
    knowledge: Knowledge
    since: float  # s since 1970, when it came into use
    classes: Mapping[str, ClassNote]
    restorable: list[int]  # earlier versions on disk
    embedder: Embedder  # runs its network
    unknown_embeddings: Mapping[str, np.ndarray] = field(default_factory=dict)  # by this network


@dataclass(frozen=True)
class FrameResult:
    """What was found in a frame, and the version of the knowledge that labelled it."""

    version: int
    detections: list[Detection]
    tracks: list[int]
    unknown_ids: list[str]  # of the unknown object that each detection is; empty for none
    own_ids: list[str]  # the same in the store of this detector, if it follows another


class FrameSession:
    """Frames come from one thread; a subclass changes `in_use` from others."""

    in_use: KnowledgeInUse
    light: LightFollower
    warnings: list[str]

    def __init__(
        self, detector: Detector, unknowns: UnknownStore, inference: InferenceConfig
    ) -> None:
        self._detector, self._unknowns = detector, unknowns
        # Twice the regions of a frame: those that were lost for a moment come back.
        tracks = max(TrackerConfig().max_tracks, 2 * detector.config.max_regions)
        self._tracker = Tracker(TrackerConfig(max_tracks=tracks))
        self._used: KnowledgeInUse | None = None  # by the last frame
        self._inference = inference
        self._engine: tuple[Knowledge, Embedder] | None = None  # of a back end, and whose network

    # Frames: one thread.

    def process(self, rgb: np.ndarray, depth: np.ndarray | None, view: View) -> FrameResult:
        """Find, label and track the objects of a frame."""
        in_use = self.in_use
        if in_use is not self._used:
            self._begin_using(in_use)
        knowledge = in_use.knowledge
        found = self._detector.detect(rgb, depth, self.light.serve(knowledge), in_use.embedder)
        self.light.observe(knowledge, found)
        boxes = np.stack([d.box for d in found]) if found else np.zeros((0, 4), np.float32)
        rows = np.stack([d.embedding for d in found]) if found else np.zeros((0, 0), np.float32)
        tracks = self._tracker.update(boxes, rows).tolist()
        ids = self._unknowns.update(view, found, tracks, self._tracker.tracks)
        return FrameResult(in_use.version, found, tracks, ids, ids)

    def _begin_using(self, in_use: KnowledgeInUse) -> None:
        """Between two frames: from here on, embeddings are those of the new network."""
        same = self._used is not None and same_network(self._used.knowledge, in_use.knowledge)
        if not same:
            self._tracker.forget_embeddings()
        self._unknowns.use_embeddings(in_use.unknown_embeddings, same_network=same)
        self._used = in_use

    def note_position(self, unknown_id: str, frame: str, point: Sequence[float]) -> None:
        """Note where an unknown object of the last frame is, in a frame that all cameras share."""
        self._unknowns.note_position(unknown_id, frame, point)

    # Any thread.

    def unknown(self, unknown_id: str) -> UnknownObject | None:
        """The entry of an unknown object."""
        return self._unknowns.get(unknown_id)

    def unknowns(self) -> list[UnknownObject]:
        """All unknown objects, the one seen last at the end."""
        return self._unknowns.all()

    def held_back(self) -> Mapping[str, int]:
        """How many unknown objects that are seen now are not announced, by the reason."""
        return self._unknowns.held_back()

    def announce(self, unknown_id: str) -> None:
        """Publish an unknown object again."""
        self._unknowns.announce(unknown_id)

    def tick(self) -> None:
        """Remove unknown objects that are too old, store what has changed; once a second."""
        self._unknowns.tick()
        self.light.tick()

    def learning(self) -> set[str]:
        """Labels of the classes that are being learned, or will be."""
        return set()

    def errors(self) -> list[str]:
        """What keeps the session from keeping what it learns, a sentence each."""
        return []

    def problems(self) -> list[str]:
        """What else a person should look at, a sentence each."""
        found = [*self.warnings, self._unknowns.problem(), self.light.report().problem]
        return [problem for problem in found if problem]

    def close(self) -> None:
        """End all threads."""
        self._unknowns.close()
        self.light.close()

    # For subclasses.

    def _make_in_use(
        self, base: KnowledgeVersions[Knowledge], version: int, knowledge: Knowledge
    ) -> KnowledgeInUse:
        note, embedder = base.note(version), self._make_embedder(knowledge)
        self.light.use(knowledge)
        return KnowledgeInUse(
            version,
            knowledge,
            time.time(),
            note.classes if note else {},
            [other for other in base.versions() if other != version],
            embedder,
            embed_unknowns(self.unknowns(), lambda crops: embed_crops(knowledge, crops, embedder)),
        )

    def _make_embedder(self, knowledge: Knowledge) -> Embedder:
        """What runs the network; a back end takes seconds to make, and outlives new classes."""
        if self._inference == InferenceConfig():
            return PlainEmbedder(knowledge.loaded)
        if self._engine is None or not same_network(self._engine[0], knowledge):
            self._engine = knowledge, BackendEmbedder(knowledge.loaded, self._inference)
        return self._engine[1]

    def _release_known(self, in_use: KnowledgeInUse, before: Sequence[str]) -> None:
        """Unknown objects may be of a class that was just learned.

        To be named is not enough to be let go: while few classes are known, one accepts what
        merely resembles it, and the views of another object would be lost. It must look the same.
        """
        new = set(in_use.knowledge.labels) - set(before)
        if not new:
            return
        knowledge, least = in_use.knowledge, self._unknowns.config.same_similarity
        waiting = [entry for entry in self.unknowns() if entry.state == UnknownState.WAITING]
        labels = label_unknowns(
            waiting, lambda crops: label_crops(knowledge, crops, in_use.embedder)
        )
        for unknown_id, label in labels.items():
            embedding = in_use.unknown_embeddings.get(unknown_id)
            if label not in new or embedding is None:  # or it was announced meanwhile
                continue
            mean = knowledge.model.head.means.value[knowledge.labels.index(label)].cpu().numpy()
            if embedding @ mean >= least * np.linalg.norm(mean):
                self._unknowns.release(unknown_id, label)
