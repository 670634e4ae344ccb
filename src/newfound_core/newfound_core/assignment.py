# SPDX-License-Identifier: Apache-2.0
"""How the domain assignment of an image reaches the normalisation layers of its network.

One assignment per image serves all layers. The model that owns the layers sets it around its
forward pass:

    with self.assignment.use(weights):
        features = self.backbone(images)

A context belongs to one model and remembers one value per thread, so neither two models nor
two passes of the same model in two threads can see each other's assignment.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor, nn

from newfound_core.errors import DataError


class Affine(NamedTuple):
    """One mixture of a layer's domains, as the kernel of plain batch normalisation takes it."""

    scale: Tensor
    shift: Tensor
    mean: Tensor  # nil
    variance: Tensor  # one


Mixed = Mapping[nn.Module, Affine]
_NOTHING: Mixed = MappingProxyType({})


class AssignmentContext:
    """The domain weights that hold during the forward pass of one model.

    Weights are `[N, k]`, one row per image, or `[k]`, the same for the whole batch. They are
    not negative and a row sums to one.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    @property
    def weights(self) -> Tensor | None:
        """The weights in force in this thread, or None outside of `use`."""
        return getattr(self._local, "weights", None)

    @property
    def mixed(self) -> Mixed:
        """What the weights in force come to, for the layers for which it is known already."""
        return getattr(self._local, "mixed", _NOTHING)

    @contextmanager
    def use(self, weights: Tensor, mixed: Mixed = _NOTHING) -> Iterator[None]:
        """Let `weights` hold for every layer that runs inside the `with` block."""
        if weights.dim() not in (1, 2) or not weights.is_floating_point():
            raise DataError(
                f"a domain assignment is a float tensor [images, domains] or [domains], "
                f"got {weights.dtype} {list(weights.shape)}"
            )
        before = self.weights, self.mixed
        self._local.weights, self._local.mixed = weights, mixed
        try:
            yield
        finally:
            self._local.weights, self._local.mixed = before

    def required(self, images: int, domains: int) -> Tensor:
        """The weights in force, checked against what a layer with `domains` domains needs."""
        weights = self.weights
        if weights is None:
            raise DataError(
                f"no domain assignment is set, but a layer with {domains} domains runs. "
                "Run the network through its model, or inside `with assignment.use(weights):`"
            )
        if weights.shape[-1] != domains or (weights.dim() == 2 and weights.shape[0] != images):
            raise DataError(
                f"the domain assignment has shape {list(weights.shape)}, but this layer sees "
                f"{images} images and has {domains} domains: expected [{images}, {domains}] "
                f"or [{domains}]"
            )
        return weights

    # A copied model gets a context of its own (shared by its layers through `memo`), and
    # thread-local values are never copied.
    def __deepcopy__(self, memo: dict[int, Any]) -> "AssignmentContext":
        return memo.setdefault(id(self), AssignmentContext())
