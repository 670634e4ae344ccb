# SPDX-License-Identifier: Apache-2.0
"""Tracks of unknown objects: what was seen of each so far, and whether it is worth a question."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from newfound_core.detection.crops import Crop
from newfound_core.detection.detector import Detection
from newfound_core.detection.same_object import Others, View, relations
from newfound_core.errors import ConfigError

FEW, SMALL, OUTSIDE, CUT, UNSTABLE = "few sightings", "small", "outside", "cut", "unstable"
_BORDER = 2.0  # pixels from the border of the image within which a box is cut off by it
_RATE = 0.2  # at which shape and embedding of a track follow its sightings
_OTHER = 0.7  # cosine below which a track shows something else than before


@dataclass(frozen=True)
class AnnouncementRules:
    """When an unknown object is announced."""

    announce_after: int = 5  # sightings as unknown
    min_unknown_size: float = 24.0  # pixels: square root of the area of its box
    min_stability: float = 0.5  # see Track.stability
    # Left, top, right, bottom as shares of the image: where the centre must be.
    region_of_interest: Sequence[float] = (0.0, 0.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        if self.announce_after < 1:
            raise ConfigError(f"announce_after must be at least 1, got {self.announce_after}")
        if not 0 <= self.min_unknown_size < math.inf:
            raise ConfigError(f"min_unknown_size must be at least 0, got {self.min_unknown_size}")
        if not 0 <= self.min_stability <= 1:
            raise ConfigError(f"min_stability must be in [0, 1], got {self.min_stability}")
        if problem := region_problem(self.region_of_interest):
            raise ConfigError(f"region_of_interest: {problem}")


def region_problem(region: Sequence[float]) -> str | None:
    """What is wrong with a region of interest, or None."""
    if len(region) != 4:
        return f"left, top, right, bottom are needed, got {len(region)} numbers"
    left, top, right, bottom = region
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        return f"shares of the image with left < right and top < bottom, got {list(region)}"
    return None


@dataclass
class Track:
    """What is known of one track so far."""

    first_seen: int  # ns, stamp of the image
    last_frame: int
    gaps: int = 0  # times that it was lost and found again, however long that took
    seen: int = 0
    unknown: int = 0
    box: np.ndarray | None = None  # at the last sighting
    shape: float = 1.0  # agreement of width and height from one sighting to the next
    sum: np.ndarray | None = None  # of the embeddings as unknown
    recent: np.ndarray | None = None  # embedding of the last few sightings
    strange: int = 0  # sightings in a row that look like something else
    crops: tuple[Crop, ...] = ()
    others: Others = field(default_factory=Others)  # objects that were seen beside it
    id: str = ""  # of the unknown object it became
    waits: str = ""  # why it is not announced

    def restart(self, stamp: int, frame: int) -> None:
        """Count anew: it shows something else, or other knowledge judges it."""
        self.first_seen, self.last_frame, self.gaps = stamp, frame, 0
        self.seen = self.unknown = 0
        self.box, self.shape, self.sum, self.recent, self.strange = None, 1.0, None, None, 0

    def add(self, detection: Detection, view: View, frame: int, patience: int) -> None:
        """Count a sighting. What looks like something else `patience` times is that."""
        if self._looks_different(detection.embedding):
            self.strange += 1
            if self.strange >= patience:
                self.restart(view.stamp, frame)
                self.id, self.crops, self.others = "", (), Others()
        else:
            self.strange = 0
        self.seen += 1
        self.gaps += frame - self.last_frame > 1
        self.last_frame = frame
        if self.box is not None:
            rate = max(_RATE, 1 / (self.seen - 1))  # at first the mean
            self.shape += rate * (_shape_agreement(self.box, detection.box) - self.shape)
        self.box = detection.box
        if not self.strange:
            new, before = detection.embedding, self.recent
            comparable = before is not None and before.shape == new.shape
            self.recent = before + _RATE * (new - before) if comparable else new.copy()
        if not detection.known:
            self.unknown += 1
            new, sum_ = detection.embedding, self.sum
            comparable = sum_ is not None and sum_.shape == new.shape
            self.sum = sum_ + new if comparable else new.copy()

    @property
    def mostly_unknown(self) -> bool:
        """Whether it was unknown in most sightings."""
        return self.unknown * 2 > self.seen

    def embedding(self) -> np.ndarray:
        """Mean direction of its embeddings as unknown."""
        assert self.sum is not None
        return self.sum / max(float(np.linalg.norm(self.sum)), 1e-12)

    @property
    def stability(self) -> float:
        """How steadily it is seen, 0 to 1: a product of three shares.

        Sightings that follow one in the frame before, so that what flickers is unstable and what
        a moving camera left and found again is not; agreement of the shapes of its boxes; length
        of the mean of its embeddings, which is 1 if all are the same.
        """
        present = (self.seen - self.gaps) / max(self.seen, 1)
        length = 0.0 if self.sum is None else float(np.linalg.norm(self.sum)) / self.unknown
        return min(1.0, present) * self.shape * min(1.0, length)

    def _looks_different(self, embedding: np.ndarray) -> bool:
        if self.recent is None or self.recent.shape != embedding.shape:
            return False
        return float(self.recent @ embedding) < _OTHER * float(np.linalg.norm(self.recent))


class TracksOfFrame:
    """The tracks of one frame, and how their boxes lie to each other."""

    def __init__(self, tracks: Sequence[Track], detections: Sequence[Detection]) -> None:
        self.tracks = tracks
        boxes = [detection.box for detection in detections]
        rows = np.stack(boxes) if boxes else np.zeros((0, 4))
        self._apart, self._beside = relations(rows.astype(np.float32))

    def others(self, row: int) -> Others:
        """Objects seen beside that of a row."""
        own = {"", self.tracks[row].id}
        apart, beside = (
            {self.tracks[column].id for column in np.flatnonzero(found[row])} - own
            for found in (self._apart, self._beside)
        )
        return Others(apart, beside)

    def tell(self, row: int) -> None:
        """Let the tracks that come later in this frame know of an object."""
        own = self.tracks[row].id
        for column in np.flatnonzero(self._beside[row, row + 1 :]) + row + 1:
            if self.tracks[column].id != own:
                self.tracks[column].others.beside.add(own)
                if self._apart[row, column]:
                    self.tracks[column].others.apart.add(own)

    def take_apart(self, dismissed: Callable[[str], bool]) -> None:
        """Two tracks of one entry are in two places: the shorter one is something else.

        What was dismissed may be on several: nothing like it is asked about.
        """
        for row, track in enumerate(self.tracks):
            elsewhere = [self.tracks[column] for column in np.flatnonzero(self._apart[row])]
            longer = any(t.id == track.id and t.seen >= track.seen for t in elsewhere)
            if track.id and longer and not dismissed(track.id):
                track.others.add(Others({track.id}, {track.id}))
                track.id = ""


def reason_to_wait(rules: AnnouncementRules, track: Track, view: View) -> str:
    """Why a track is not announced now; empty if it may be."""
    if track.unknown < rules.announce_after or not track.mostly_unknown:
        return FEW
    assert track.box is not None
    left, top, right, bottom = track.box.tolist()
    if math.sqrt(max(0.0, right - left) * max(0.0, bottom - top)) < rules.min_unknown_size:
        return SMALL
    low_x, low_y, high_x, high_y = rules.region_of_interest
    x, y = (left + right) / 2 / view.width, (top + bottom) / 2 / view.height
    if not (low_x <= x <= high_x and low_y <= y <= high_y):
        return OUTSIDE
    if is_cut(track.box, view):
        return CUT
    return UNSTABLE if track.stability < rules.min_stability else ""


def is_cut(box: np.ndarray, view: View) -> bool:
    """Whether the border of the image cuts a box off; the whole image is not cut."""
    left, top, right, bottom = box.tolist()
    sides = (
        left < _BORDER,
        top < _BORDER,
        right > view.width - _BORDER,
        bottom > view.height - _BORDER,
    )
    return any(sides) and not all(sides)


def _shape_agreement(one: np.ndarray, other: np.ndarray) -> float:
    """IoU of two boxes laid on each other, 0 to 1: a thing that moves keeps its shape."""
    (left, top, right, bottom), (left2, top2, right2, bottom2) = one.tolist(), other.tolist()
    width, height = max(right - left, 1e-6), max(bottom - top, 1e-6)
    width2, height2 = max(right2 - left2, 1e-6), max(bottom2 - top2, 1e-6)
    shared = min(width, width2) * min(height, height2)
    return shared / (width * height + width2 * height2 - shared)
