# SPDX-License-Identifier: Apache-2.0
"""Whether two sightings, or two entries, are of one physical object.

Embedding, place and time decide together:

- what was seen at one moment in two different places is two objects, however alike;
- what looks the same (cosine of at least `same_similarity`) is one object, wherever and whenever;
- what was at the same place of the same camera a moment ago (`same_place_seconds`) need only look
  roughly the same (`same_place_similarity`): a box that jumps from a part of a thing to the whole
  of it changes the embedding. Not so for what was seen beside it in one frame, neither box inside
  the other: boxes of things behind each other overlap, too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from newfound_core.detection.boxes import areas, iou

_SAME_IOU, _SAME_SHARE = 0.3, 0.7  # one place: IoU, or the share of the smaller box inside
_PART_SHARE = 0.85  # of a box that lies in another in the same frame
_APART_IOU, _APART_SHARE = 0.1, 0.4  # below both: two places
_RATE = 0.05  # at which the embedding of an object follows its sightings


@dataclass(frozen=True)
class View:
    """When, where and how large a frame is."""

    stamp: int  # ns
    frame_id: str
    width: int
    height: int


def _overlap(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """IoU of [N, 4] with [M, 4] boxes, and the share of the smaller one that both cover."""
    union_share = iou(one, other)
    sizes, others = areas(one)[:, None], areas(other)[None]
    shared = union_share * (sizes + others) / (1 + union_share)
    smaller = np.minimum(sizes, others)
    return union_share, np.divide(shared, smaller, out=np.zeros_like(shared), where=smaller > 0)


def relations(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of [N, 4] boxes are in two places, and which are not parts of each other; [N, N]."""
    union_share, inside = _overlap(boxes, boxes)
    apart = (union_share < _APART_IOU) & (inside < _APART_SHARE)
    return apart, inside < _PART_SHARE


@dataclass(frozen=True)
class Others:
    """Objects that were seen in the same frame as another one."""

    apart: set[str] = field(default_factory=set)  # in another place
    beside: set[str] = field(default_factory=set)  # neither box inside the other; all of apart

    def add(self, other: "Others") -> None:
        """Take in what is known of another track of the same object."""
        self.apart.update(other.apart)
        self.beside.update(other.beside)

    def without(self, ignored: Callable[[str], bool]) -> "Others":
        """Those that are not ignored."""
        return Others(*({i for i in ids if not ignored(i)} for ids in (self.apart, self.beside)))

    def replace(self, unknown_id: str, survivor: str) -> None:
        """Follow an object that was merged into another; an empty id: it is gone."""
        for ids in (self.apart, self.beside):
            if unknown_id in ids:
                ids.discard(unknown_id)
                ids.update({survivor} - {""})


class ObjectIndex:
    """Embedding and last place of each object, as arrays: a frame costs one product per lookup."""

    def __init__(self, same: float, same_place: float, seconds: float) -> None:
        self._same, self._same_place, self._window = same, same_place, int(seconds * 1e9)
        self._rows: dict[str, int] = {}
        self._ids: list[str] = []
        self._embeddings = np.zeros((0, 0), np.float32)  # [capacity, D]; NaN: not known
        self._boxes = np.zeros((0, 4), np.float32)
        self._stamps = np.zeros(0, np.int64)
        self._cameras = np.zeros(0, np.int64)
        self._others: dict[str, Others] = {}

    def __contains__(self, unknown_id: str) -> bool:
        return unknown_id in self._rows

    def place(self, unknown_id: str, box: Iterable[float], view: View) -> None:
        """Add an object, or note where it is now."""
        row = self._rows.get(unknown_id)
        if row is None:
            row = self._rows[unknown_id] = len(self._ids)
            self._ids.append(unknown_id)
            self._others[unknown_id] = Others()
            self._reserve(row + 1)
            self._embeddings[row] = np.nan
        self._boxes[row] = list(box)
        self._stamps[row], self._cameras[row] = view.stamp, hash(view.frame_id)

    def follow(self, unknown_id: str, embedding: np.ndarray) -> None:
        """Let the embedding of an object follow a sighting."""
        self._use_dimension(len(embedding))
        row = self._rows[unknown_id]
        before = self._embeddings[row]
        after = embedding if np.isnan(before[:1]).any() else before + _RATE * (embedding - before)
        self._embeddings[row] = after / max(float(np.linalg.norm(after)), 1e-12)

    def similarity(self, unknown_id: str, embedding: np.ndarray) -> float:
        """Cosine of an object and an embedding; 1 if its own is not known."""
        if self._embeddings.shape[1] != len(embedding):
            return 1.0
        found = float(self._embeddings[self._rows[unknown_id]] @ embedding)
        return 1.0 if np.isnan(found) else found

    def find(
        self, embedding: np.ndarray, box: np.ndarray, view: View, others: Others
    ) -> Iterator[str]:
        """Objects that this sighting may be of, the most alike first; `others` are not."""
        count = len(self._ids)
        if not count or self._embeddings.shape[1] != len(embedding):
            return
        similarity = np.nan_to_num(self._embeddings[:count] @ embedding, nan=-1.0)
        enough = similarity >= np.where(self._near(box, view), self._same_place, self._same)
        for row in np.flatnonzero(enough)[np.argsort(-similarity[enough], kind="stable")]:
            excluded = others.apart if similarity[row] >= self._same else others.beside
            if self._ids[row] not in excluded:
                yield self._ids[row]

    def _near(self, box: np.ndarray, view: View) -> np.ndarray:
        """Which objects were at the place of a box a moment ago; bool [N]."""
        count = len(self._ids)
        union_share, inside = _overlap(box[None].astype(np.float32), self._boxes[:count])
        near = (union_share[0] >= _SAME_IOU) | (inside[0] >= _SAME_SHARE)
        near &= np.abs(self._stamps[:count] - view.stamp) <= self._window
        return near & (self._cameras[:count] == hash(view.frame_id))

    def duplicates(self, unknown_id: str, view: View) -> list[str]:
        """Other entries that are this object."""
        row = self._rows[unknown_id]
        found = self.find(self._embeddings[row], self._boxes[row], view, self._others[unknown_id])
        return [other for other in found if other != unknown_id]

    def note_others(self, unknown_id: str, others: Others) -> None:
        """Note what was seen in the same frame as an object."""
        self._others[unknown_id].add(others)
        for other in others.apart & self._rows.keys():
            self._others[other].apart.add(unknown_id)
        for other in others.beside & self._rows.keys():
            self._others[other].beside.add(unknown_id)

    def embeddings(self) -> dict[str, np.ndarray]:
        """The embedding of each object that has one."""
        known = {i: self._embeddings[row] for i, row in self._rows.items()}
        return {i: row.copy() for i, row in known.items() if len(row) and not np.isnan(row[0])}

    def replace_embeddings(self, embeddings: Mapping[str, np.ndarray]) -> None:
        """Compare by these from now on."""
        self._embeddings = np.full((len(self._boxes), 0), np.nan, np.float32)
        for unknown_id, row in embeddings.items():
            if unknown_id in self._rows:
                self._use_dimension(len(row))
                self._embeddings[self._rows[unknown_id]] = row

    def remove(self, unknown_id: str, survivor: str = "") -> None:
        """Forget an object, or take it for the survivor; the last one takes its row."""
        row, last = self._rows.pop(unknown_id), len(self._ids) - 1
        for array in (self._embeddings, self._boxes, self._stamps, self._cameras):
            array[row] = array[last]
        self._ids[row] = self._ids[last]
        self._ids.pop()
        if row != last:
            self._rows[self._ids[row]] = row
        removed = self._others.pop(unknown_id)
        if survivor:
            self._others[survivor].add(removed)
        for other in removed.beside & self._rows.keys():
            self._others[other].replace(unknown_id, survivor)

    def _reserve(self, count: int) -> None:
        spare = count + 64 - len(self._boxes)
        if count <= len(self._boxes):
            return

        def larger(array: np.ndarray) -> np.ndarray:
            return np.concatenate([array, np.zeros((spare, *array.shape[1:]), array.dtype)])

        self._embeddings, self._boxes = larger(self._embeddings), larger(self._boxes)
        self._stamps, self._cameras = larger(self._stamps), larger(self._cameras)

    def _use_dimension(self, dimension: int) -> None:
        """Embeddings of another network are not comparable."""
        if self._embeddings.shape[1] != dimension:
            self._embeddings = np.full((len(self._boxes), dimension), np.nan, np.float32)
