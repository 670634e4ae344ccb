# SPDX-License-Identifier: Apache-2.0
"""The table of `evaluate_segmentation`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

TITLES = {
    "before": "before the step",
    "ft": "fine-tuning",
    "lwf": "LwF",
    "ce": "+ cross entropy",
    "kd": "+ distillation",
    "mib": "+ start = MiB",
    "reference": "MiB with reference frames",
    "joint": "joint",
}


def summary(results: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> dict[str, Any]:
    """Mean and standard deviation over seeds of each metric that has a value."""
    found: dict[str, Any] = {}
    for name in metrics:
        values = [r[name] for r in results if r[name] is not None]
        if values:
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
            found[name] = {"mean": float(np.mean(values)), "deviation": deviation}
    return found


def markdown(rows: Mapping[str, Mapping[str, Any]], metrics: Sequence[str]) -> str:
    """Percentages, one line a row."""
    lines = [f"| mIoU | {' | '.join(metrics)} |", "|---" * (1 + len(metrics)) + "|"]
    for row, values in rows.items():
        cells = [_cell(values.get(name)) for name in metrics]
        lines.append(f"| {TITLES[row]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(value: Mapping[str, float | None] | None) -> str:
    if value is None:
        return ""
    deviation = value["deviation"]
    spread = "" if deviation is None else f" ± {100 * deviation:.1f}"
    return f"{100 * (value['mean'] or 0.0):.1f}{spread}"
