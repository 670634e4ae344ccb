# SPDX-License-Identifier: Apache-2.0
"""A task as the difference to the network that it shares: taken from a model, applied to the base.

    delta = extract(model.backbone, config, head_tensors)
    tensors = apply(base, delta)          # those of a plain network, served as any other

The layers' parts lie one after the other, in the order of the layers' names, because a name for
each would cost a twentieth of the file.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.errors import BackboneError, CheckpointError
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.layers import base_tensors, masks_of, norm_layers
from newfound_core.task_delta.transform import dead_channels, transformed

Tensors = Mapping[str, Tensor]
NORM_TENSORS = ("weight", "bias", "running_mean", "running_var")
TRUNK = "backbone."  # of a model's tensors, those of the network that is shared
_COUNTER = "num_batches_tracked"  # of BN; nothing depends on it


@dataclass(frozen=True)
class TaskDelta:
    """The tensors of a task."""

    masks: Tensor | None = None  # uint8, a bit for every weight
    k: Tensor | None = None  # [4, layers], or [4, output channels of all layers]
    norm: Tensor | None = None  # [2 or 4, BN channels of all layers], rows as in NORM_TENSORS
    head: dict[str, Tensor] = field(default_factory=dict)  # by the name in the model
    keep_dead: bool = False

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, under the names of a checkpoint."""
        parts = {"masks": self.masks, "k": self.k, "bn": self.norm}
        named = {name: tensor for name, tensor in parts.items() if tensor is not None}
        return named | {f"head.{name}": tensor for name, tensor in self.head.items()}

    @classmethod
    def from_tensors(cls, tensors: Tensors, *, keep_dead: bool = False) -> "TaskDelta":
        """The delta of a checkpoint's tensors; an unknown name is a CheckpointError."""
        rest = dict(tensors)
        masks, k, norm = (rest.pop(name, None) for name in ("masks", "k", "bn"))
        # A head must not replace what the base's digest vouches for.
        trunk = f"head.{TRUNK}"
        unknown = sorted(n for n in rest if not n.startswith("head.") or n.startswith(trunk))
        if unknown:
            raise CheckpointError(f"a delta has no tensor {unknown[0]}: it was edited by hand")
        head = {name.removeprefix("head."): tensor for name, tensor in rest.items()}
        return cls(masks, k, norm, head, keep_dead)

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(t.numel() * t.element_size() for t in self.tensors().values())


def extract(
    backbone: nn.Module, config: TaskDeltaConfig, head: Tensors | None = None
) -> TaskDelta:
    """The delta of a network that `convert` prepared and training changed."""
    state = base_tensors(backbone)
    masks = [mask for _, mask in sorted(masks_of(backbone), key=lambda named: named[0])]
    bits = k = norm = None
    if masks:
        bits = pack(torch.cat([mask.bits.cpu().contiguous().flatten() for mask in masks]))
        k = torch.cat([mask.scaled_k().detach().cpu().reshape(4, -1) for mask in masks], 1)
    if config.rules.norm and (names := sorted(name for name, _ in norm_layers(backbone))):
        if any(f"{name}.{part}" not in state for name in names for part in NORM_TENSORS):
            raise BackboneError("a task needs batch normalisation with gamma, beta and statistics")
        parts = NORM_TENSORS if config.own_statistics else NORM_TENSORS[:2]
        rows = [torch.cat([state[f"{name}.{part}"] for name in names]) for part in parts]
        norm = torch.stack(rows).detach().cpu()
    kept = {name: tensor.detach().clone() for name, tensor in (head or {}).items()}
    return TaskDelta(bits, k, norm, kept, config.keep_dead)


def apply(base: Tensors, delta: TaskDelta) -> dict[str, Tensor]:
    """The tensors of the task's network: the base's, transformed and replaced by the delta's.

    Raises a CheckpointError if the delta does not fit. In float32, whatever the base is stored
    in: k1 near 1e-4 beside weights near 1 is lost in half precision.
    """
    _check(base, delta)
    result = {name: _full(tensor) for name, tensor in base.items()}
    if delta.masks is not None and delta.k is not None:
        names = _weights(base)
        sizes = [result[name].numel() for name in names]
        outs = [len(result[name]) for name in names]
        columns = [1] * len(names) if delta.k.shape[1] == len(names) else outs
        bits = unpack(delta.masks, sum(sizes)).split(sizes)
        for name, own, k in zip(names, bits, delta.k.split(columns, 1), strict=True):
            weight = result[name]
            new = transformed(weight, own.reshape(weight.shape), k)
            result[name] = (
                torch.where(dead_channels(weight), weight, new) if delta.keep_dead else new
            )
    if delta.norm is not None:
        names = _norms(base)
        channels = [len(base[f"{name}.running_mean"]) for name in names]
        for part, row in zip(NORM_TENSORS, delta.norm, strict=False):  # without statistics, two
            for name, values in zip(names, row.split(channels), strict=True):
                result[f"{name}.{part}"] = values.clone()
    return result


def _check(base: Tensors, delta: TaskDelta) -> None:
    weights = [base[name] for name in _weights(base)]
    if (delta.masks is None) != (delta.k is None):
        raise CheckpointError("the delta has masks without k, or k without masks")
    if delta.masks is not None and delta.k is not None:
        bits, outs = sum(w.numel() for w in weights), sum(len(w) for w in weights)
        if delta.masks.dtype != torch.uint8 or delta.masks.shape != ((bits + 7) // 8,):
            raise CheckpointError(f"the masks do not hold a bit for each of {bits} weights")
        allowed = ((4, len(weights)), (4, outs))
        if delta.k.dtype != torch.float32 or delta.k.shape not in allowed:
            raise CheckpointError(
                f"k has shape {list(delta.k.shape)}, but there are {len(weights)} layers with "
                f"{outs} output channels"
            )
    channels = sum(len(base[f"{name}.running_mean"]) for name in _norms(base))
    if delta.norm is not None and (
        delta.norm.dtype != torch.float32 or delta.norm.shape not in ((2, channels), (4, channels))
    ):
        raise CheckpointError(
            f"bn has shape {list(delta.norm.shape)} instead of [2 or 4, {channels}]"
        )


def _weights(base: Tensors) -> list[str]:
    """Names of the weights of convolutions and fully connected layers, in the masks' order."""
    layers = [n.removesuffix(".weight") for n, t in base.items() if _is_weight(n, t)]
    return [f"{layer}.weight" for layer in sorted(layers)]


def _is_weight(name: str, tensor: Tensor) -> bool:
    return name.endswith(".weight") and tensor.ndim >= 2


def _norms(base: Tensors) -> list[str]:
    return sorted(n.removesuffix(".running_mean") for n in base if n.endswith(".running_mean"))


def pack(bits: Tensor) -> Tensor:
    """Eight bits to a byte, the first one highest; the last byte is filled up with zeros."""
    return torch.from_numpy(np.packbits(bits.numpy()))


def unpack(packed: Tensor, count: int) -> Tensor:
    """The bits again, bool."""
    return torch.from_numpy(np.unpackbits(packed.numpy(), count=count).astype(bool))


def trunk_digest(tensors: Tensors) -> str:
    """SHA-256 of a network's contents, whatever file they come from."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        if not name.endswith(_COUNTER):
            tensor = _full(tensors[name]).detach().cpu().contiguous()
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def _full(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == torch.float16 else tensor.clone()
