# SPDX-License-Identifier: Apache-2.0
"""Mixed precision in training: which there are, and the context that computes in one."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch

Precision = Literal["float32", "bfloat16"]


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Compute convolutions and products in a precision, and the rest where it is safe."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)
