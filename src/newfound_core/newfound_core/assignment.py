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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from newfound_core.errors import DataError


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

    @contextmanager
    def use(self, weights: Tensor) -> Iterator[None]:
        """Let `weights` hold for every layer that runs inside the `with` block."""
        if weights.dim() not in (1, 2) or not weights.is_floating_point():
            raise DataError(
                f"a domain assignment is a float tensor [images, domains] or [domains], "
                f"got {weights.dtype} {list(weights.shape)}"
            )
        before = self.weights
        self._local.weights = weights
        try:
            yield
        finally:
            self._local.weights = before

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
