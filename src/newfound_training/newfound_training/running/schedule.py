# SPDX-License-Identifier: Apache-2.0
"""How the learning rate changes over a training."""

import math
from typing import Literal

Schedule = Literal["constant", "step", "cosine"]


def learning_rate_factor(
    schedule: Schedule, step: int, steps: int, *, warmup: int = 0, drop_at: float = 0.9
) -> float:
    """What the learning rates are multiplied by in a step.

    "step" divides by ten after the share `drop_at` of the steps, as the thesis does. "cosine"
    falls to nil along half a wave. Before, both rise linearly over `warmup` steps.
    """
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if schedule == "step":
        return 0.1 if step >= drop_at * steps else 1.0
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
    return 1.0
