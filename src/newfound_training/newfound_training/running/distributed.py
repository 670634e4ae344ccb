# SPDX-License-Identifier: Apache-2.0
"""Several processes, started by `torchrun`, that train one network together.

Every process works on its share of each batch. Gradients are summed over processes, and the
statistics of batch normalisation are those of the whole batch, so that the result is that of one
process with the same batch, up to rounding.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn

from newfound_core.errors import ConfigError
from newfound_core.open_world.sharing import Sharing

# One process may decode images, or work on its last cell of a table, for hours while the others
# wait; should it die, torchrun ends them.
PATIENCE = timedelta(days=1)


@dataclass(frozen=True)
class Team(Sharing):
    """The processes that work together, and which of them this is."""

    rank: int = 0
    processes: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def wait(self) -> None:
        """Until all processes are here."""
        if self.processes > 1:
            distributed.barrier()

    def values_of_all(self, value: int, device: torch.device) -> list[int]:
        """What each process has, by rank, known to all of them."""
        values = torch.zeros(self.processes, dtype=torch.int64, device=device)
        values[self.rank] = value
        if self.processes > 1:
            distributed.all_reduce(values)
        return values.tolist()

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """For a block that fills a cache: one process computes, then the others read."""
        if not self.leads:
            self.wait()
        yield
        if self.leads:
            self.wait()

    def mine(self, tasks: Sequence[Any]) -> Sequence[Any]:
        """This process's share of tasks that one process does alone."""
        return tasks[self.rank :: self.processes]

    def apply(self, network: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
        """What a network makes of a batch: each process of its share, then all have it all.

        Where all processes compute the same loss from it, `backward` followed by
        `sum_gradients` gives the gradients of that loss.
        """
        if self.processes == 1:
            return network(batch)
        first, last = (len(batch) * (self.rank + i) // self.processes for i in range(2))
        rows = network(batch[first:last])
        whole = rows.new_zeros(len(batch), *rows.shape[1:])
        whole[first:last] = rows.detach()
        distributed.all_reduce(whole)
        whole[first:last] = rows  # once more, with their gradient
        return whole

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Adds the gradients of all processes; call it after `backward`."""
        if self.processes == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        distributed.all_reduce(flat)
        for gradient, part in zip(
            gradients, flat.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(part.view_as(gradient))

    def mean(self, values: dict[str, Tensor]) -> dict[str, float]:
        """The sum over processes of shares of a mean, as numbers."""
        if not values:
            return {}
        stacked = torch.stack([v.detach().float() for v in values.values()])
        if self.processes > 1:
            distributed.all_reduce(stacked)
        return dict(zip(values, stacked.tolist(), strict=True))


@contextmanager
def joined_team(device: torch.device) -> Iterator[Team]:
    """The team that `torchrun` describes in the environment, or a team of one."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes == 1:
        yield Team()
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=PATIENCE)
    try:
        yield Team(distributed.get_rank(), processes)
    finally:
        distributed.destroy_process_group()


def local_device(device: str) -> str:
    """`cuda` becomes the GPU of this process; anything else stays."""
    local = os.environ.get("LOCAL_RANK")
    if local is None or device == "cpu":
        return device
    if device != "cuda":
        raise ConfigError(f"with torchrun give --device cuda or cpu, not {device}")
    return f"cuda:{local}"


def share_statistics(model: nn.Module, team: Team) -> None:
    """Lets batch normalisation in training see the batches of all processes."""
    if team.processes == 1:
        return
    from newfound_core.normalization import DomainBatchNorm

    for module in model.modules():
        if isinstance(module, DomainBatchNorm):
            module.total = _sum_over_processes
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d):
                setattr(module, name, SharedBatchNorm.like(child))


class SharedBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation by the statistics of all processes' images, on any device.

    (`nn.SyncBatchNorm` does the same, but only on GPUs.)
    """

    @classmethod
    def like(cls, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> "SharedBatchNorm":
        """A layer with the parameters and statistics of another, under the same names."""
        new = cls(layer.num_features, layer.eps, layer.momentum, layer.affine)
        new.weight, new.bias = layer.weight, layer.bias
        new.running_mean, new.running_var = layer.running_mean, layer.running_var
        new.num_batches_tracked = layer.num_batches_tracked
        return new.train(layer.training)

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def forward(self, x: Tensor) -> Tensor:
        """Normalise; in training by the mean and variance over all processes."""
        if not self.training:
            return super().forward(x)
        dims = [0, *range(2, x.dim())]
        shape = [1, -1] + [1] * (x.dim() - 2)
        values = x.to(torch.promote_types(x.dtype, torch.float32))
        own = values.new_tensor([x.numel() // x.shape[1]])  # not the same in every process
        total = _sum_over_processes(torch.cat([values.sum(dims), own]))
        n = total[-1].detach()
        mean = total[:-1] / n
        centred = values - mean.view(shape)
        variance = _sum_over_processes(centred.square().sum(dims)) / n
        self._follow(mean, variance, n)
        y = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(x.dtype)

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor, n: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        momentum = 0.1 if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance * n / (n - 1).clamp_min(1), momentum)


class _SumOverProcesses(torch.autograd.Function):
    """The sum of a tensor over processes; so is its gradient."""

    @staticmethod
    def forward(ctx: object, tensor: Tensor) -> Tensor:
        total = tensor.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        distributed.all_reduce(total)
        return total


def _sum_over_processes(tensor: Tensor) -> Tensor:
    return _SumOverProcesses.apply(tensor)
