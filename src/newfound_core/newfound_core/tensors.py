# SPDX-License-Identifier: Apache-2.0
"""Strict loading of named tensors: every one fits, or the message names those that do not."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from newfound_core.errors import CheckpointError


def load_into(
    module: nn.Module, tensors: Mapping[str, Tensor], where: str = "the checkpoint"
) -> None:
    """Load all tensors into a module, or raise a CheckpointError and change nothing."""
    problems = mismatches(module.state_dict(), tensors)
    if problems:
        raise CheckpointError(
            f"the tensors of {where} do not fit the model they should make: "
            f"{'; '.join(problems)}. Its metadata and tensors do not belong together, or it was "
            "made by an incompatible version: export it again."
        )
    module.load_state_dict(dict(tensors))


def mismatches(
    expected: Mapping[str, Tensor], found: Mapping[str, Tensor], *, dtypes: bool = True
) -> list[str]:
    """List what is missing, unexpected, or of another shape or type; empty if all fits."""
    both = sorted(expected.keys() & found.keys())
    shapes = [
        f"{name} has shape {list(found[name].shape)} instead of {list(expected[name].shape)}"
        for name in both
        if found[name].shape != expected[name].shape
    ]
    types = [
        f"{name} is {found[name].dtype} instead of {expected[name].dtype}"
        for name in both
        if dtypes and found[name].dtype != expected[name].dtype
    ]
    return [
        *_listed("missing ", expected.keys() - found.keys()),
        *_listed("unexpected ", found.keys() - expected.keys()),
        *_listed("", shapes, "; "),
        *_listed("", types, "; "),
    ]


def check_finite(tensors: Mapping[str, Tensor], where: str, infinite: Iterable[str] = ()) -> None:
    """Raise a CheckpointError for NaN anywhere, and for infinity but in the tensors named."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            continue
        bad = tensor.isnan() if name in infinite else ~torch.isfinite(tensor)
        if bad.any():
            raise CheckpointError(
                f"{where}: {int(bad.sum())} of {tensor.numel()} values of {name} are NaN or "
                "infinite. The training that made it diverged; use an earlier checkpoint."
            )


def _listed(what: str, items: Iterable[str], separator: str = ", ", limit: int = 5) -> list[str]:
    items = sorted(items)
    rest = f" and {len(items) - limit} more" if len(items) > limit else ""
    return [f"{what}{separator.join(items[:limit])}{rest}"] if items else []
