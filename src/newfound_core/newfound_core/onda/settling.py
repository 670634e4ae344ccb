# SPDX-License-Identifier: Apache-2.0
"""A momentum that falls while the stream stays as it is, and returns when it changes.

A constant momentum averages over the last few updates only, so the statistics never come to
rest: their noise is that of 2 / momentum updates. Where the stream is of one domain, the mean over
all updates is the better estimate. So once the source is mostly forgotten, after 2 / momentum
updates, the momentum falls as it does in a mean over ever more of them:

    momentum / (1 + momentum t),     t = 0, 1, 2, …

down to `settled_momentum`, so that a slow change is still seen. A sudden one shows as frames
that differ from the statistics by a multiple of what is usual: all begins again.
"""

from newfound_core.onda.config import OndaConfig
from newfound_core.onda.estimate import Estimate
from newfound_core.onda.layers import Statistics

HELD = 2.0  # in units of 1 / momentum: then an eighth of the source is left
SURPRISING = 3.0  # times the usual difference
FOLLOWED = 0.2  # how fast the usual difference follows


class Settling:
    """Remembers for how long the stream has been as it is."""

    def __init__(self) -> None:
        self._updates = 0
        self._usual: float | None = None

    def momentum(self, config: OndaConfig, online: Statistics, estimate: Estimate) -> float:
        """The momentum of an update that is about to be made."""
        if config.settled_momentum is None:
            return config.momentum
        found = difference(online, estimate)
        if self._usual is not None and found > SURPRISING * self._usual:
            self.restart()
        self._usual = found if self._usual is None else _between(self._usual, found, FOLLOWED)
        falling = config.momentum / (1 + max(0.0, config.momentum * self._updates - HELD))
        self._updates += 1
        return max(falling, min(config.settled_momentum, config.momentum))

    def restart(self) -> None:
        """The stream is a new one."""
        self._updates, self._usual = 0, None


def difference(online: Statistics, estimate: Estimate) -> float:
    """How far the means of an estimate are from the statistics in use, 0 to 1, over all rows.

    d^2 / (variance + d^2) is bounded: a channel that hardly varies cannot outweigh all others.
    """
    squared = (estimate.statistics.mean - online.mean).square()
    rows = squared / (online.variance + squared).clamp(min=1e-12)
    share = estimate.share.expand_as(rows)
    return float((share * rows).sum() / share.sum().clamp(min=1e-12))


def _between(a: float, b: float, share: float) -> float:
    return a + share * (b - a)
