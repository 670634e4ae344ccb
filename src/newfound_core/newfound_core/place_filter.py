# SPDX-License-Identifier: Apache-2.0
"""A discrete Bayes filter over place categories along a video."""

import numpy as np
import numpy.typing as npt

from newfound_core.errors import ConfigError, DataError

FLOOR = 1e-6  # no observation excludes a place for good


class PlaceFilter:
    """Remembers where the robot was: belief = normalise(observation * transition(belief)).

    Between two frames the place changes with `change_probability`, to any other one alike.
    The network's probabilities serve as the observation: with a uniform prior over places
    they are proportional to the likelihood.
    """

    def __init__(self, places: int, change_probability: float = 0.05) -> None:
        if places < 2:
            raise ConfigError(f"a place filter needs at least 2 places, got {places}")
        if not 0 < change_probability < 1:
            raise ConfigError(f"change_probability must be in (0, 1), got {change_probability}")
        self.places = places
        self.change_probability = change_probability
        self.belief = self._uniform()

    def _uniform(self) -> npt.NDArray[np.float64]:
        return np.full(self.places, 1 / self.places)

    def predict(self) -> npt.NDArray[np.float64]:
        """The belief before the next observation."""
        moving = self.change_probability * self.belief
        return self.belief - moving + (moving.sum() - moving) / (self.places - 1)

    def update(self, probabilities: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Take in what the network says of one frame, [places]; returns the new belief."""
        observed = np.asarray(probabilities, dtype=np.float64)
        if observed.shape != (self.places,):
            raise DataError(f"expected {self.places} probabilities, got {list(observed.shape)}")
        if not np.isfinite(observed).all() or observed.min() < 0 or observed.sum() <= 0:
            raise DataError(f"probabilities must be finite and not negative, got {observed}")
        posterior = self.predict() * np.maximum(observed / observed.sum(), FLOOR)
        self.belief = posterior / posterior.sum()
        return self.belief.copy()

    def reset(self) -> None:
        """Forget where the robot was."""
        self.belief = self._uniform()
