# SPDX-License-Identifier: Apache-2.0
"""What every training loop shares: mixed precision, the process group, the optimiser's step."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

Precision = Literal["float32", "bfloat16"]


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Compute convolutions and products in a precision, and the rest where it is safe."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


class ProcessGroup:
    """The processes that train one network together: here just one, which does everything.

    Processes of a group go through a training alike, with the same samples and the same random
    numbers. They divide only the network's work on a batch. What they have in hand afterwards,
    features, loss and weights, is the same in all of them.
    """

    rank: int = 0
    world_size: int = 1

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def apply(self, network: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
        """Return the network's output for a batch, one row per sample, in every process.

        The gradient reaches the network of this process from its own share of the rows.
        """
        return network(batch)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add the gradients of all processes; called after `backward`."""


def backward(
    loss: Tensor, optimizer: Optimizer, group: ProcessGroup, max_norm: float = float("inf")
) -> Tensor:
    """Compute the gradients of all processes, clip them, and return their norm before that."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    parameters = [p for entry in optimizer.param_groups for p in entry["params"]]
    group.sum_gradients(parameters)
    return nn.utils.clip_grad_norm_(parameters, max_norm)
