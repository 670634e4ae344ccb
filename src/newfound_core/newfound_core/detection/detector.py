# SPDX-License-Identifier: Apache-2.0
"""Detection in one frame: proposals, their embeddings, and a label or "unknown" for each."""

from dataclasses import dataclass

import numpy as np
import torch

from newfound_core.detection.boxes import distinct
from newfound_core.detection.crops import crops_of
from newfound_core.detection.embedding import Embedder, PlainEmbedder
from newfound_core.detection.positions import ObjectLocator, ObjectPosition
from newfound_core.detection.proposals import Proposals, Proposer, Source
from newfound_core.knowledge.contents import Knowledge


@dataclass(frozen=True)
class Detection:
    """One object in an image."""

    box: np.ndarray  # float32 [4]: left, top, right, bottom in pixels
    objectness: float
    label: str  # empty if it is unknown
    nearest_label: str  # empty if no class is known
    score: float  # 0 to 1, estimated probability that the label, or "unknown", is right
    distance: float
    rejection_threshold: float
    embedding: np.ndarray  # float32 [D], of length 1: for telling objects apart
    crop: np.ndarray  # uint8 [h, w, 3], a view into the image: what the network saw
    proposed_by: Source = "colour"  # what its box was made of
    length: float = 1.0  # of the feature that the head judged, which is embedding * length
    position: ObjectPosition | None = None  # where it is, if that was asked for and measured

    @property
    def known(self) -> bool:
        """Whether it has a label."""
        return bool(self.label)


@dataclass(frozen=True)
class DetectorConfig:
    """How many regions of a frame are classified, and how they are cropped."""

    max_regions: int = 10
    min_objectness: float = -1.0  # below it a region is no object; negative: the proposer's own
    max_overlap: float = 0.5  # IoU of two boxes that count as two objects
    margin: float = 0.15  # around a box, as a share of its longer side


class Detector:
    """Finds and labels objects; holds no state, so knowledge can be exchanged between frames."""

    def __init__(self, proposer: Proposer, config: DetectorConfig | None = None) -> None:
        self.proposer = proposer
        self.config = config or DetectorConfig()
        self.locator: ObjectLocator | None = None  # set it, and detections have positions

    def detect(
        self,
        rgb: np.ndarray,
        depth: np.ndarray | None,
        knowledge: Knowledge,
        embedder: Embedder | None = None,
    ) -> list[Detection]:
        """The objects of a frame, most certain first.

        `embedder` runs the network of the knowledge; None: PyTorch, as it is.
        """
        found = self.regions(rgb, depth)
        if not len(found):
            return []
        crops = crops_of(rgb, found.boxes, self.config.margin)
        embedder = embedder or PlainEmbedder(knowledge.loaded)
        with torch.inference_mode():
            decided = _decide(knowledge, embedder(crops))
        facts = zip(found.boxes, found.objectness, found.sources, decided, crops, strict=True)
        positions = self._positions(rgb, depth, found)
        return [
            Detection(box, float(sure), *told[:6], crop, source, told[6], position)
            for (box, sure, source, told, crop), position in zip(facts, positions, strict=True)
        ]

    def _positions(
        self, rgb: np.ndarray, depth: np.ndarray | None, found: Proposals
    ) -> list[ObjectPosition | None]:
        if self.locator is None or depth is None:
            return [None] * len(found)
        return self.locator.locate(depth, found.boxes, rgb.shape, found.scene)

    def regions(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """Where objects may be, most certain first."""
        found = self.proposer.propose(rgb, depth)
        threshold = self.config.min_objectness
        threshold = threshold if threshold >= 0 else self.proposer.min_objectness
        found = found.take(np.flatnonzero(found.objectness >= threshold))
        return found.take(
            distinct(
                found.boxes, found.objectness, self.config.max_overlap, self.config.max_regions
            )
        )


@torch.inference_mode()
def embed_crops(
    knowledge: Knowledge, crops: list[np.ndarray], embedder: Embedder | None = None
) -> np.ndarray:
    """Embeddings of stored crops, of length 1, float32 [N, D]."""
    features = (embedder or PlainEmbedder(knowledge.loaded)).stored(crops)
    return _unit_rows(knowledge.model.shaped(features))


@torch.inference_mode()
def label_crops(
    knowledge: Knowledge, crops: list[np.ndarray], embedder: Embedder | None = None
) -> list[str]:
    """Labels of stored crops; empty for the unknown."""
    features = (embedder or PlainEmbedder(knowledge.loaded)).stored(crops)
    return [label for label, *_ in _decide(knowledge, features)]


def same_network(one: Knowledge, other: Knowledge) -> bool:
    """Whether embeddings by one can be compared with embeddings by the other."""
    tensors, others = one.model.backbone.state_dict(), other.model.backbone.state_dict()
    return (
        one.loaded.metadata.preprocessing == other.loaded.metadata.preprocessing
        and tensors.keys() == others.keys()
        and all(torch.equal(tensor, others[name]) for name, tensor in tensors.items())
    )


def _decide(
    knowledge: Knowledge, features: torch.Tensor
) -> list[tuple[str, str, float, float, float, np.ndarray, float]]:
    model, labels = knowledge.model, knowledge.labels
    embedding = model.shaped(features)
    decision = model.head.decide(embedding)
    columns = (
        decision.label.tolist(),
        decision.nearest.tolist(),
        decision.confidence.tolist(),
        decision.distance.tolist(),
        decision.rejection_threshold.tolist(),
    )
    lengths = embedding.norm(dim=1).tolist()
    return [
        (_name(labels, label), _name(labels, nearest), score, distance, threshold, row, length)
        for label, nearest, score, distance, threshold, row, length in zip(
            *columns, _unit_rows(embedding), lengths, strict=True
        )
    ]


def _unit_rows(embedding: torch.Tensor) -> np.ndarray:
    return torch.nn.functional.normalize(embedding, dim=1).cpu().numpy()


def _name(labels: tuple[str, ...], index: int) -> str:
    return labels[index] if index >= 0 else ""
