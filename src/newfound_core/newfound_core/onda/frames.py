# SPDX-License-Identifier: Apache-2.0
"""What goes into a network for one frame, and what its output says."""

import math
from typing import Any

import torch
from torch import Tensor

from newfound_core.errors import DataError


def as_batch_of_one(frame: Tensor) -> Tensor:
    """One frame with its batch dimension; anything else is a `DataError`."""
    batch = frame[None] if frame.dim() in (1, 3) else frame
    if batch.dim() not in (2, 4) or batch.shape[0] != 1 or not batch.is_floating_point():
        raise DataError(
            f"expected one frame, a float tensor [C, H, W] or [1, C, H, W] (or a feature vector), "
            f"got {frame.dtype} {list(frame.shape)}"
        )
    return batch


def logits_of(output: Any) -> Tensor:
    """The logits in what a network returns: a tensor, or a tuple with a field `logits`."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        raise DataError(
            "expected the network to return logits [1, classes], or a tuple with such a field "
            f"`logits`, got {type(output).__name__}"
        )
    return logits


def label_and_entropy(logits: Tensor) -> tuple[int, float]:
    """The predicted class, and the prediction's entropy as a share of the largest possible."""
    probabilities = logits.float().softmax(-1)
    entropy = float(torch.special.entr(probabilities).sum())
    return int(probabilities.argmax()), entropy / math.log(max(2, len(logits)))
