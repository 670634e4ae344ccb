# SPDX-License-Identifier: Apache-2.0
"""Sightings, the things that they are of, and what becomes of a thing with one more.

A sighting belongs to the thing whose box it is in, whatever either is called: two solid things
are not in one place. Else to one of the same label whose distance is within GATE standard
deviations of both positions, e^2 = e_1^2 + e_2^2, or within MIN_GATE; else to the same unknown
object, wherever it is. Two sightings in one image are two things, but not if the second is in the
box that is remembered of the first and not in the one that is seen: then it is a piece of it.
Positions are merged by their inverse variances, less where the boxes differ in size; DRIFT is
added for each sighting, so that a thing that is pushed along is followed.

Names are votes: each sighting adds its own, those before count FADING as much.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from newfound_core.detection.box_overlap import Box, overlap, share_inside

GATE, MIN_GATE = 3.0, 0.06  # standard deviations; m, for things of which several stand together
UNLABELLED_GATE = 0.05  # m between a thing with a label and one without that are the same
SAME_PLACE = 0.5  # of the smaller box, in the larger one
FADING, UNKNOWN_VOTE = 0.85, 0.1  # to be rejected says less than to be recognised
MIN_ERROR, DRIFT = 0.004, 0.01  # m
FIRST_PRESENCE, MOST, LEAST = 0.7, 0.99, 0.01
SEEN = 0.9 / 0.1  # odds of presence by a detection
SEEN_THROUGH = 0.05 / 0.95  # by depth that measures what is behind the place
NOT_DETECTED = 0.6 / 0.9  # by something at the place that was not detected as this
CERTAIN = 10.0  # votes for a name that was given
SET_BACK = 60_000_000_000  # ns: older sightings are not late, but the clock was set back
Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Sighting:
    """A detection with a position."""

    frame: str  # that the position is in
    position: Vector  # m, of the centre
    orientation: tuple[float, float, float, float]  # unit quaternion x, y, z, w
    size: Vector  # m
    error: float  # m
    stamp: int  # ns
    label: str = ""  # empty: unknown
    unknown_id: str = ""
    camera: str = ""  # frame of the camera
    view_quality: float = 0.0  # 0: there is no view

    @property
    def box(self) -> Box:
        """Around what was seen."""
        return Box(self.position, self.orientation, self.size)


@dataclass(frozen=True)
class RememberedObject:
    """A thing, as it is in the database."""

    id: int
    label: str
    unknown_id: str
    frame: str
    x: float
    y: float
    z: float
    qx: float
    qy: float
    qz: float
    qw: float
    length: float
    width: float
    height: float
    error: float
    presence: float
    sightings: int
    first_seen: int  # ns
    last_seen: int
    looked: int  # when its place was last looked at in vain
    camera: str
    view_quality: float
    votes: str  # JSON, weight by name

    @property
    def position(self) -> Vector:
        """Of its centre, m."""
        return self.x, self.y, self.z

    @property
    def box(self) -> Box:
        """Around it."""
        turn = self.qx, self.qy, self.qz, self.qw
        return Box(self.position, turn, (self.length, self.width, self.height))


def presence_after(presence: float, odds: float) -> float:
    """The probability that a thing is there, after evidence of these odds."""
    after = presence * odds / (presence * odds + 1 - presence)
    return min(MOST, max(LEAST, after))


Things = dict[int, RememberedObject]  # by the number of a sighting


def assign(
    sightings: Sequence[Sighting], near: Sequence[Sequence[RememberedObject]]
) -> tuple[Things, Things]:
    """The things that sightings of one frame are of, and those that they are only pieces of.

    `near` are the candidates of each; the best pairs come first. What is in neither is new.
    """
    pairs = [
        (fit, number, each)
        for number, (sighting, things) in enumerate(zip(sightings, near, strict=True))
        for each in things
        if (fit := _fit(each, sighting)) is not None
    ]
    found: Things = {}
    for _, number, each in sorted(pairs, key=lambda pair: -pair[0]):
        if number not in found and all(each.id != other.id for other in found.values()):
            found[number] = each
    whole = [(sightings[number], each) for number, each in found.items()]
    pieces = {
        number: known
        for number, sighting in enumerate(sightings)
        if number not in found and (known := _piece(sighting, whole)) is not None
    }
    return found, pieces


def _fit(known: RememberedObject, sighting: Sighting) -> float | None:
    """How well a thing fits a sighting: overlap, or minus the distance; None if it does not."""
    if overlap(known.box, sighting.box) >= SAME_PLACE:
        return _likeness(known.box, sighting.box)
    distance = math.dist(known.position, sighting.position)
    if known.label and sighting.label:
        error = math.hypot(known.error, sighting.error)
        same = known.label.casefold() == sighting.label.casefold()
        return -distance if same and distance <= max(MIN_GATE, GATE * error) else None
    return -distance if distance <= UNLABELLED_GATE else None


def _likeness(one: Box, other: Box) -> float:
    """Ratio of the volumes."""
    small, large = sorted((one.volume, other.volume))
    return small / large


def _piece(
    sighting: Sighting, whole: Iterable[tuple[Sighting, RememberedObject]]
) -> RememberedObject | None:
    """The thing of which another part was seen in the same frame."""
    for seen, known in whole:
        if share_inside(sighting.box, known.box) >= SAME_PLACE > overlap(sighting.box, seen.box):
            return known
    return None


def merged(known: RememberedObject, sighting: Sighting) -> RememberedObject:
    """A thing after one more sighting."""
    before = known.error**2 + DRIFT**2
    now = max(MIN_ERROR, sighting.error) ** 2
    share = before / (before + now)  # of the new position
    error = math.sqrt(before * now / (before + now))
    if overlap(known.box, sighting.box) >= SAME_PLACE:
        share *= _likeness(known.box, sighting.box)  # of a part, or with a neighbour
    elif math.dist(known.position, sighting.position) > GATE * math.sqrt(before + now):
        share, error = 1.0, math.sqrt(now)  # it was moved
    x, y, z = _between(known.position, sighting.position, share)
    size = _between((known.length, known.width, known.height), sighting.size, share)
    old = known.qx, known.qy, known.qz, known.qw
    turn = sighting.orientation if share >= 0.5 else old
    label, votes = vote(known.votes, sighting.label, known.label)
    return replace(
        known,
        label=label, votes=votes, unknown_id=sighting.unknown_id or known.unknown_id,
        x=x, y=y, z=z, qx=turn[0], qy=turn[1], qz=turn[2], qw=turn[3],
        length=size[0], width=size[1], height=size[2], error=max(MIN_ERROR, error),
        presence=presence_after(known.presence, SEEN), sightings=known.sightings + 1,
        first_seen=min(known.first_seen, sighting.stamp), last_seen=_last(known, sighting),
        camera=sighting.camera,
    )  # fmt: skip


def _last(known: RememberedObject, sighting: Sighting) -> int:
    """When a thing was seen last; cameras may be late, and clocks may be set back."""
    late = 0 <= known.last_seen - sighting.stamp <= SET_BACK
    return known.last_seen if late else sighting.stamp


def _between(one: Sequence[float], other: Sequence[float], share: float) -> list[float]:
    return [(1 - share) * a + share * b for a, b in zip(one, other, strict=True)]


def vote(stored: str, label: str, before: str = "") -> tuple[str, str]:
    """The name of a thing after one more vote, and all votes, JSON.

    `before` is its name, for a thing whose votes were not counted.
    """
    votes: dict[str, float] = json.loads(stored) or ({before: 1.0} if before else {})
    name = next((each for each in votes if each.casefold() == label.casefold()), label)
    votes = {each: FADING * weight for each, weight in votes.items() if weight > 0.01}
    votes[name] = votes.get(name, 0.0) + (1.0 if label else UNKNOWN_VOTE)
    return max(votes, key=lambda each: votes[each]), json.dumps(votes)
