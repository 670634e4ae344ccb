# SPDX-License-Identifier: Apache-2.0
"""More or fewer classes in a trained network.

MiB shares the background's probability out evenly among the background b and the new classes
(arXiv:2002.00718, equations 9 and 10), so that what is known of the old ones does not change:

    w_c = w_b,    beta_c = beta_b - log(1 + new classes)      for every new c, and for b itself
"""

import copy
import math
from dataclasses import replace
from typing import Literal

import torch
from torch import nn

from newfound_core.errors import ConfigError
from newfound_core.segmentation.network import SegmentationNetwork

Start = Literal["background", "random"]


@torch.no_grad()
def with_classes(
    network: SegmentationNetwork, count: int, start: Start = "background"
) -> SegmentationNetwork:
    """A copy with so many classes more, in its own mode and memory."""
    if count < 1:
        raise ConfigError(f"a step needs at least one new class, got {count}")
    grown = copy.deepcopy(network)
    before = network.classifier
    assert before.bias is not None
    after = nn.Conv2d(before.in_channels, before.out_channels + count, 1).to(before.weight)
    assert after.bias is not None
    after.weight[: before.out_channels] = before.weight
    after.bias[: before.out_channels] = before.bias
    if start == "background":
        share = before.bias[0] - math.log(1 + count)
        after.weight[before.out_channels :] = before.weight[:1]
        after.bias[before.out_channels :] = share
        after.bias[0] = share
    after.requires_grad_(before.weight.requires_grad)
    grown.classifier = after
    grown.config = replace(network.config, steps=(*network.config.steps, count))
    return grown


@torch.no_grad()
def without_class(network: SegmentationNetwork, index: int) -> SegmentationNetwork:
    """A copy without a class, whose pixels go to the next best, mostly the background."""
    if not 1 <= index < network.classes:
        raise ConfigError(f"class {index} of {network.classes} cannot be removed")
    smaller = copy.deepcopy(network)
    kept = [number for number in range(network.classes) if number != index]
    before = network.classifier
    assert before.bias is not None
    after = nn.Conv2d(before.in_channels, len(kept), 1).to(before.weight)
    assert after.bias is not None
    after.weight.copy_(before.weight[kept])
    after.bias.copy_(before.bias[kept])
    smaller.classifier = after
    smaller.config = replace(network.config, steps=_fewer(network.config.steps, index))
    return smaller


def _fewer(steps: tuple[int, ...], index: int) -> tuple[int, ...]:
    """The steps without one class of the step that it was learned in."""
    last, left = 0, []
    for count in steps:
        last += count
        inside = last - count < index <= last
        left.append(count - inside)
    return tuple(count for count in left if count)
