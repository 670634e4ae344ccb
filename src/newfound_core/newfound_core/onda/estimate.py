# SPDX-License-Identifier: Apache-2.0
"""What an estimator finds out about the latest frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from newfound_core.onda.aside import aside
from newfound_core.onda.folding import FoldedNetwork
from newfound_core.onda.layers import Statistics


@dataclass(frozen=True)
class Estimate:
    """Statistics of some frames, unbiased, and how much of the frames each row has seen."""

    statistics: Statistics
    # [rows] in 0 to 1: 1 for plain layers; the mean assignment of the frames for a domain; 0 for
    # a layer that did not run. A row moves by momentum times share: a domain that the frames
    # do not belong to stays where it is.
    share: Tensor

    def is_finite(self) -> bool:
        """Whether every row that would move is a number."""
        rows = self.share > 0
        moving = self.statistics.mean[rows], self.statistics.variance[rows]
        return all(bool(torch.isfinite(t).all()) for t in moving)


class Estimator(Protocol):
    """Turns frames into an estimate, by way of samples that can be kept in a memory."""

    def start(self, frame: Tensor) -> None:
        """Called before a frame that counts is predicted."""

    def finish(self) -> Any | None:
        """Called after it: the frame's sample, or None if it must not be used."""

    def estimate(self, samples: Sequence[Any], current: Statistics) -> Estimate:
        """Statistics of the frames behind `samples`; may run in another thread."""

    def serve_with(self, folded: FoldedNetwork) -> None:
        """Called once if frames are predicted by the folded network from now on."""

    def close(self) -> None:
        """Leave the network as it was found."""


@dataclass(frozen=True)
class PendingUpdate:
    """Frames that are due to be learned from. `estimate` may run in any thread."""

    estimator: Estimator
    samples: Sequence[Any]
    current: Statistics
    generation: int

    def estimate(self) -> "ReadyUpdate":
        """The slow part; does not touch the serving network."""
        with aside(self.current.mean.device):
            estimate = self.estimator.estimate(self.samples, self.current)
        return ReadyUpdate(estimate, self.generation)


@dataclass(frozen=True)
class ReadyUpdate:
    """An estimate to be applied between two frames."""

    estimate: Estimate
    generation: int
