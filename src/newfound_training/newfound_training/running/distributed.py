# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training under `torchrun`, with the result of one process.

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
from torch.distributed.nn.functional import all_reduce  # differentiable

from newfound_core.errors import ConfigError
from newfound_core.normalization import DomainBatchNorm
from newfound_core.optimization import ProcessGroup

# One process may decode images, or work on its last run of a table, for hours while the others
# wait; should it die, torchrun ends them.
TIMEOUT = timedelta(days=1)


@dataclass(frozen=True)
class DistributedGroup(ProcessGroup):
    """The default process group of torch.distributed, or a single process."""

    rank: int = 0
    world_size: int = 1

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.world_size > 1:
            distributed.barrier()

    def all_gather(self, value: int, device: torch.device) -> list[int]:
        """Return the value of each process, by rank, in all of them."""
        values = torch.zeros(self.world_size, dtype=torch.int64, device=device)
        values[self.rank] = value
        if self.world_size > 1:
            distributed.all_reduce(values)
        return values.tolist()

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Let the main process run a block that fills a cache before the others read it."""
        if not self.is_main_process:
            self.barrier()
        yield
        if self.is_main_process:
            self.barrier()

    def shard(self, tasks: Sequence[Any]) -> Sequence[Any]:
        """Return this process's share of tasks that one process does alone."""
        return tasks[self.rank :: self.world_size]

    def apply(self, network: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
        """Return the network's output for a whole batch, of which each process computes a share.

        Where all processes compute the same loss from it, `backward` followed by
        `sum_gradients` gives the gradients of that loss. (The differentiable all_gather of torch
        wants shares of equal size, and would sum the gradients of equal losses.)
        """
        if self.world_size == 1:
            return network(batch)
        first, last = (len(batch) * (self.rank + i) // self.world_size for i in range(2))
        rows = network(batch[first:last])
        whole = rows.new_zeros(len(batch), *rows.shape[1:])
        whole[first:last] = rows.detach()
        distributed.all_reduce(whole)
        whole[first:last] = rows  # once more, with their gradient
        return whole

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add the gradients of all processes; call it after `backward`."""
        if self.world_size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        distributed.all_reduce(flat)
        for gradient, part in zip(
            gradients, flat.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(part.view_as(gradient))

    def sum_terms(self, terms: dict[str, Tensor]) -> dict[str, float]:
        """Add scalar terms of all processes, as numbers."""
        if not terms:
            return {}
        stacked = torch.stack([v.detach().float() for v in terms.values()])
        if self.world_size > 1:
            distributed.all_reduce(stacked)
        return dict(zip(terms, stacked.tolist(), strict=True))


@contextmanager
def init_process_group(device: torch.device) -> Iterator[DistributedGroup]:
    """Join the process group that `torchrun` describes in the environment, or stay alone."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        yield DistributedGroup()
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=TIMEOUT)
    try:
        yield DistributedGroup(distributed.get_rank(), world_size)
    finally:
        distributed.destroy_process_group()


def local_device(device: str) -> str:
    """Return the GPU of this process for `cuda`; anything else stays."""
    local = os.environ.get("LOCAL_RANK")
    if local is None or device == "cpu":
        return device
    if device != "cuda":
        raise ConfigError(f"with torchrun give --device cuda or cpu, not {device}")
    return f"cuda:{local}"


def synchronize_batchnorm(model: nn.Module, group: DistributedGroup, device: torch.device) -> None:
    """Let batch normalisation in training use the statistics of all processes' images."""
    if group.world_size == 1:
        return
    for module in model.modules():
        if isinstance(module, DomainBatchNorm):
            module.total = all_reduce
    if device.type == "cuda":
        nn.SyncBatchNorm.convert_sync_batchnorm(model)
        return
    for module in model.modules():
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d):
                setattr(module, name, CpuSyncBatchNorm.like(child))


class CpuSyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """`nn.SyncBatchNorm` for the CPU, whose tensors that layer refuses."""

    @classmethod
    def like(cls, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> "CpuSyncBatchNorm":
        """Make a layer with the parameters and statistics of another, under the same names."""
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
        total = all_reduce(torch.cat([values.sum(dims), own]))
        n = total[-1].detach()
        mean = total[:-1] / n
        centred = values - mean.view(shape)
        variance = all_reduce(centred.square().sum(dims)) / n
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
