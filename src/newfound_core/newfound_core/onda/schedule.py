# SPDX-License-Identifier: Apache-2.0
"""Which frames are learned from, where learning from a frame costs more than serving it; ours.

After n updates (1 - momentum)^n of the statistics that the stream had before are left. While that
is much, every frame is learned from; then the statistics have settled, and one frame in `every`
is enough to hold them. How far such a frame lies from the statistics tells whether they still
fit. A change is noticed by a cumulative sum (E. S. Page, "Continuous Inspection Schemes",
Biometrika 41, 1954) of the distances d, with mean m and deviation s of what is usual:

    S_t = max(0, S_{t-1} + (d_t - m) / s - SLACK),     a change if S_t > LIMIT

Then every frame is learned from for as long again. What is usual is measured while every frame is
learned from, and held: a slow drift afterwards does not move what it is compared with.
"""

import math

SETTLED = 0.2  # of what the statistics were before: 16 updates at a momentum of 0.1
SLACK, LIMIT = 1.0, 8.0  # in deviations of single frames
SUSPECT = 1.0  # from this sum on the next frame is looked at, too
LEAST_DEVIATION = 0.1  # of the usual distance: a camera that stands still has none
FOLLOWED = 0.05  # how fast the usual distance follows
MEASURED = 60  # frames at least that tell what is usual
UNWATCHED_EVERY = 3  # at most, where nothing would notice a change


class LearningSchedule:
    """Every frame while the statistics move, one in `every` once they have settled."""

    def __init__(self, every: int, *, watched: bool = True) -> None:
        """Unless `watched` no distances are observed: few frames are learned from all the time."""
        self._every = every if watched else min(every, UNWATCHED_EVERY)
        self.watched = watched
        self._offered = 0
        self._left, self._sum = 1.0, 0.0
        self._latest: list[float] = []  # distances since the last update
        self._usual = UsualDistance()

    @property
    def settled(self) -> bool:
        """Whether few frames are learned from at present."""
        return not self.watched or self._left < SETTLED

    def takes_next(self) -> bool:
        """Whether to learn from the next frame; asked once for each."""
        self._offered += 1
        return not self.settled or self._sum > SUSPECT or self._offered % self._every == 0

    def observe(self, distance: float) -> None:
        """Note how far a frame that was learned from lies from the statistics."""
        self._latest.append(distance)
        self._sum = max(0.0, self._sum + self._usual.deviations(distance) - SLACK)
        if self._sum > LIMIT:
            self._left, self._sum = 1.0, 0.0

    def note_update(self, momentum: float) -> None:
        """Note that the statistics have moved by so much of the way to the latest frames."""
        if not self.settled or self._usual.frames < MEASURED:
            for distance in self._latest:  # only now: a change is compared with what was before
                self._usual.follow(distance)
        self._latest.clear()
        self._left *= 1 - momentum

    def restart(self) -> None:
        """Learn from every frame: the statistics are others."""
        self._left, self._sum = 1.0, 0.0
        self._latest.clear()
        self._usual = UsualDistance()


class UsualDistance:
    """Mean and deviation of the distance of single frames, in the recent past."""

    def __init__(self) -> None:
        self.frames, self._mean, self._variance = 0, 0.0, 0.0

    def follow(self, distance: float) -> None:
        """Count a frame in."""
        self.frames += 1
        share = max(FOLLOWED, 1 / self.frames)
        apart = distance - self._mean
        self._mean += share * apart
        self._variance = (1 - share) * (self._variance + share * apart * apart)

    def deviations(self, distance: float) -> float:
        """How much further away a frame is than is usual; 0 while that is not known."""
        deviation = max(math.sqrt(self._variance), LEAST_DEVIATION * self._mean)
        return (distance - self._mean) / deviation if deviation > 0 else 0.0
