# SPDX-License-Identifier: Apache-2.0
"""How a named network is made: the library's own first, then cut into a backbone.

Weights are loaded between the two steps, while the tensors still have the names under which
the library, and everyone else, publishes them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from newfound_core.backbones.contract import Backbone

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Recipe:
    """One network: how to create it, how to cut it, where its ImageNet weights are."""

    create: Callable[..., nn.Module]  # options as keyword arguments; random weights
    assemble: Callable[[nn.Module], Backbone]
    classifier: tuple[str, ...] = ()  # prefixes of tensors that belong to the dropped classifier
    imagenet: Callable[[], Tensors] | None = None
