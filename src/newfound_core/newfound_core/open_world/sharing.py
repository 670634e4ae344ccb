# SPDX-License-Identifier: Apache-2.0
"""How several processes learn one step together, for callers that have several."""

from collections.abc import Callable, Iterable

from torch import Tensor, nn


class Sharing:
    """One process, which does everything itself; others derive from it.

    Processes that share go through a step alike, with the same samples and the same random
    numbers. They divide only the network's work on a batch. What they have in hand afterwards,
    features, loss and weights, is the same in all of them.
    """

    rank: int = 0  # which of the processes this is

    def apply(self, network: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
        """Return what a network makes of a batch, one row per sample.

        The gradient reaches the network of this process from its own share of the rows.
        """
        return network(batch)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add the gradients of all shares; called after `backward`."""
