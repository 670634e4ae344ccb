# SPDX-License-Identifier: Apache-2.0
"""The place filter on a stream whose frames do not come evenly."""

import numpy as np

from newfound_core.place_filter import PlaceFilter

RESOLUTION = 1e-6  # s; stamps nearer than this are equal


class PlaceBelief:
    """A `PlaceFilter` that knows how much time has passed between two frames.

    The place changes with a probability per second, so the belief does not depend on the
    frame rate. After a gap, or when time runs backwards (a bag that is played again), the robot
    may be anywhere: the filter begins anew.
    """

    def __init__(self, places: int) -> None:
        self._filter = PlaceFilter(places)
        self._last: tuple[float, float] | None = None  # stamp and arrival of the last frame

    def update(
        self,
        probabilities: np.ndarray,
        *,
        stamp: float,
        received: float,
        change_per_second: float,
        gap: float,
    ) -> np.ndarray:
        """The belief after a frame with these probabilities; times in seconds."""
        passed = self._passed(stamp, received)
        if not 0 <= passed <= gap:
            self._filter.reset()
            passed = 0.0
        # Once the robot may have moved anywhere, more time changes nothing.
        most = (self._filter.places - 1) / self._filter.places
        change = 1 - (1 - change_per_second) ** passed
        self._filter.change_probability = min(change, most)
        return self._filter.update(probabilities)

    def forget(self) -> None:
        """Begin anew with the next frame."""
        self._filter.reset()
        self._last = None

    def _passed(self, stamp: float, received: float) -> float:
        last, self._last = self._last, (stamp, received)
        if last is None:
            return 0.0
        if abs(stamp - last[0]) < RESOLUTION:  # a camera that does not stamp its images
            return received - last[1]
        return stamp - last[0]
