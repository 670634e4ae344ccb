# SPDX-License-Identifier: Apache-2.0
"""What is made of stored images: by this version or that, and whether views are enough to learn.

Features are kept as long as the network stays, so that asking again, or asking another version of
the same network, costs no pass. Called from one service at a time.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from sensor_msgs.msg import CompressedImage
from torch import Tensor

from newfound_core.detection.detector import same_network
from newfound_core.detection.embedding import Embedder, PlainEmbedder
from newfound_core.detection.unknown_objects import UnknownState
from newfound_core.knowledge.contents import Knowledge
from newfound_core.open_world.memory import Sample
from newfound_core.open_world.memory_store import encoded, sample_id
from newfound_core.open_world.view_coverage import distinct_views, recognised_when_left_out
from newfound_msgs import msg
from newfound_nodes.open_world.session import OpenWorldSession
from newfound_runtime.services import RequestError

FEATURES_KEPT = 2000
MOST_VERSIONS = 4
MOST_OF_A_CLASS, USUAL = 200, 10
MOST_TOGETHER = 1000  # images of all classes together: half a minute of a small computer
_CHUNK = 16  # images that pass the network together


class FeatureCache:
    """Features of encoded images by one network; those of another one replace them."""

    def __init__(self) -> None:
        self._knowledge: Knowledge | None = None
        self._kept: OrderedDict[str, Tensor] = OrderedDict()

    @torch.no_grad()
    def features(
        self, knowledge: Knowledge, embedder: Embedder, images: Sequence[bytes]
    ) -> Tensor:
        """The network's features of images, [N, D]."""
        if self._knowledge is not knowledge:
            if self._knowledge is None or not same_network(self._knowledge, knowledge):
                self._kept.clear()
            self._knowledge = knowledge
        keys = [hashlib.sha256(image).hexdigest() for image in images]
        new = {k: i for k, i in zip(keys, images, strict=True) if k not in self._kept}
        found: dict[str, Tensor] = {}
        todo = list(new)
        for start in range(0, len(todo), _CHUNK):
            part = todo[start : start + _CHUNK]
            pixels = [Sample(new[key], "view").pixels() for key in part]
            # Copies: a head may learn from them, which it may not from tensors made for inference.
            found |= dict(zip(part, embedder.stored(pixels).clone(), strict=True))
        found |= {key: self._kept[key] for key in keys if key not in found}
        self._kept.update(found)
        while len(self._kept) > FEATURES_KEPT:
            self._kept.popitem(last=False)
        dimension = knowledge.model.head.dimension
        return torch.stack([found[key] for key in keys]) if keys else torch.zeros(0, dimension)


class StoredViews:
    """Answers `~/list_examples` and `~/assess_views`."""

    def __init__(self) -> None:
        self._cache, self._other_cache = FeatureCache(), FeatureCache()

    def list_examples(self, session: OpenWorldSession, request: Any, response: Any) -> None:
        """Fill a ListExamples response."""
        if len(request.versions) > MOST_VERSIONS:
            reason = f"at most {MOST_VERSIONS} versions answer at once"
            raise RequestError("UNKNOWN_VERSION", reason)
        limit = min(request.limit or USUAL, MOST_OF_A_CLASS)
        found, images = _stored(session, request.label, limit)
        for version in request.versions:
            for entry, (label, score) in zip(
                found, self._answers(session, version, images), strict=True
            ):
                entry.answers = [*entry.answers, label]
                entry.scores = [*entry.scores, score]
        if request.images and request.label:
            for entry, image in zip(found, images, strict=True):
                entry.image = CompressedImage(format=_format(image), data=image)
        response.examples = found

    @torch.no_grad()
    def _answers(
        self, session: OpenWorldSession, version: int, images: Sequence[bytes]
    ) -> list[tuple[str, float]]:
        in_use = session.in_use
        knowledge = session.knowledge_of(version)
        if knowledge is in_use.knowledge or same_network(knowledge, in_use.knowledge):
            features = self._cache.features(in_use.knowledge, in_use.embedder, images)
        else:
            embedder = PlainEmbedder(knowledge.loaded)
            features = self._other_cache.features(knowledge, embedder, images)
        if not len(features):
            return []
        decided = knowledge.model.decide_features(features)
        labels, scores = decided.label.tolist(), decided.confidence.tolist()
        return [
            (knowledge.labels[index] if index >= 0 else "", score)
            for index, score in zip(labels, scores, strict=True)
        ]

    @torch.no_grad()
    def assess(self, session: OpenWorldSession, views: Sequence[bytes], response: Any) -> None:
        """Fill an AssessViews response."""
        in_use = session.in_use
        if not in_use.knowledge.can_learn:
            raise RequestError("NOT_READY", "the model came without a memory: it cannot learn")
        model = in_use.knowledge.model
        features = self._cache.features(in_use.knowledge, in_use.embedder, views)
        embeddings = model.shaped(features)
        differs, novelty = distinct_views(embeddings)
        counted = embeddings[torch.tensor(differs, dtype=torch.bool)]
        recognised = recognised_when_left_out(model.head, counted)
        response.differs, response.novelty = differs, novelty
        response.recognised = recognised
        response.expected_accuracy = (recognised + 1) / (len(counted) + 2)
        if len(counted):
            called = model.head.decide(counted).label.tolist()
            most = max(set(called), key=called.count)
            often = 2 * called.count(most) > len(called)
            response.known_label = in_use.knowledge.labels[most] if most >= 0 and often else ""


def _stored(
    session: OpenWorldSession, label: str, limit: int
) -> tuple[list[msg.ClassExample], list[bytes]]:
    """Images of a class, or of all and of what waits to be named, as messages and as files."""
    memory = session.remembered()
    if label and label not in session.in_use.knowledge.labels:
        raise RequestError("UNKNOWN_LABEL", f"no class {label[:100]!r}")
    labels = [label] if label else memory.labels
    limit = max(1, min(limit, MOST_TOGETHER // max(1, len(labels))))
    found: list[msg.ClassExample] = []
    images: list[bytes] = []
    for name in labels:
        for sample in memory.samples(name)[:limit]:
            found.append(
                msg.ClassExample(
                    id=sample_id(sample),
                    label=name,
                    source=sample.source,
                    held_out=sample.held_out,
                )
            )
            images.append(encoded(sample)[0])
    for entry in session.unknowns() if not label else []:
        if entry.state == UnknownState.WAITING and entry.crops:
            found.append(msg.ClassExample(id=entry.id, unknown_id=entry.id, source="camera"))
            images.append(entry.crops[0].image)
    return found, images


def _format(image: bytes) -> str:
    return "png" if image.startswith(b"\x89PNG") else "jpeg"
