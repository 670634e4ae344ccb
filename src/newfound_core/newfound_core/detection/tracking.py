# SPDX-License-Identifier: Apache-2.0
"""Track objects over frames by box overlap and embedding."""

import math
from dataclasses import dataclass

import numpy as np

from newfound_core.detection.boxes import iou
from newfound_core.errors import ConfigError


@dataclass(frozen=True)
class TrackerConfig:
    """When two sightings are of one object."""

    min_iou: float = 0.3  # of the boxes in consecutive sightings
    min_similarity: float = 0.4  # cosine of the embeddings, even where boxes overlap
    return_similarity: float = 0.9  # the same where they do not: it moved, or came back
    lost_after: int = 30  # frames without a sighting after which a track ends
    max_tracks: int = 64  # the longest unseen ends first

    def __post_init__(self) -> None:
        for name in ("min_iou", "min_similarity", "return_similarity"):
            if not (0 <= getattr(self, name) <= 1 and math.isfinite(getattr(self, name))):
                raise ConfigError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        if self.lost_after < 1 or self.max_tracks < 1:
            raise ConfigError("lost_after and max_tracks must be at least 1")


class Tracker:
    """Gives each object a number that it keeps; the cost of a frame is bounded by the config."""

    def __init__(self, config: TrackerConfig | None = None) -> None:
        self.config = config or TrackerConfig()
        self._next = 1
        self._ids = np.zeros(0, np.int64)
        self._boxes = np.zeros((0, 4), np.float32)
        self._embeddings = np.zeros((0, 0), np.float32)  # [T, D]; a row of NaN: not known
        self._unseen = np.zeros(0, np.int64)  # frames since the last sighting

    @property
    def tracks(self) -> set[int]:
        """Numbers of the objects that are followed now."""
        return set(self._ids.tolist())

    def update(self, boxes: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
        """The track of each of N objects: boxes [N, 4], embeddings [N, D] of length 1."""
        tracks = self._match(boxes, embeddings)
        self._unseen += 1
        if not len(boxes):
            self._end_lost()
            return tracks
        new = np.flatnonzero(tracks < 0)
        seen = np.flatnonzero(tracks >= 0)
        rows = tracks[seen]
        self._boxes[rows], self._embeddings[rows], self._unseen[rows] = (
            boxes[seen],
            embeddings[seen],
            0,
        )
        tracks[new] = len(self._ids) + np.arange(len(new))
        self._ids = np.concatenate([self._ids, self._next + np.arange(len(new))])
        self._next += len(new)
        self._boxes = np.concatenate([self._boxes, boxes[new].astype(np.float32)])
        self._embeddings = np.concatenate([self._embeddings, embeddings[new].astype(np.float32)])
        self._unseen = np.concatenate([self._unseen, np.zeros(len(new), np.int64)])
        numbers = self._ids[tracks]
        self._end_lost()
        return numbers

    def forget_embeddings(self) -> None:
        """Embeddings of another network are not comparable; boxes still are."""
        self._embeddings = np.full((len(self._ids), 0), np.nan, np.float32)

    def _match(self, boxes: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
        """The row of the track of each object, -1 for a new one."""
        found = np.full(len(boxes), -1, np.int64)
        if not len(boxes):
            return found
        if self._embeddings.shape[1] != embeddings.shape[1]:
            self._embeddings = np.full((len(self._ids), embeddings.shape[1]), np.nan, np.float32)
        if not len(self._ids):
            return found
        overlap, similarity = (
            iou(boxes.astype(np.float32), self._boxes),
            embeddings @ self._embeddings.T,
        )
        alike = np.nan_to_num(similarity, nan=1.0) >= self.config.min_similarity
        score = overlap + 0.5 * np.nan_to_num(similarity)
        _greedy(np.where((overlap >= self.config.min_iou) & alike, score, -np.inf), found)
        returns = np.nan_to_num(similarity) >= self.config.return_similarity
        _greedy(np.where(returns, similarity, -np.inf), found)
        return found

    def _end_lost(self) -> None:
        kept = self._unseen < self.config.lost_after
        if kept.sum() > self.config.max_tracks:
            newest = np.argsort(self._unseen, kind="stable")[: self.config.max_tracks]
            kept = np.isin(np.arange(len(kept)), newest) & kept
        if not kept.all():
            self._ids, self._boxes = self._ids[kept], self._boxes[kept]
            self._embeddings, self._unseen = self._embeddings[kept], self._unseen[kept]


def _greedy(scores: np.ndarray, found: np.ndarray) -> None:
    """Pair rows with columns, best first, leaving out what is paired; -inf is no pair."""
    scores = scores.copy()
    scores[found >= 0] = -np.inf
    scores[:, found[found >= 0]] = -np.inf
    for _ in range(min(scores.shape)):
        row, column = np.unravel_index(scores.argmax(), scores.shape)
        if scores[row, column] == -np.inf:
            return
        found[row] = column
        scores[row], scores[:, column] = -np.inf, -np.inf
