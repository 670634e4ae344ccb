# SPDX-License-Identifier: Apache-2.0
"""The Visual Decathlon's score, and the table of `evaluate-tasks`.

    S = Σ_d a_d max(0, E_d^max - E_d)²,   a_d = 1000 / (E_d^max)²

with E_d^max twice the error of fine-tuning,
so that fine-tuning scores 250 a task. S_p = S / parameters, which are counted as what the base and
all tasks take on disk without heads, in multiples of the base.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from newfound_training.tasks.options import ROWS

Accuracies = Mapping[str, Mapping[str, Sequence[float]]]  # by row and task, one per seed


def score(errors: Sequence[float], reference: Sequence[float]) -> float:
    """S of errors in [0, 1], relative to those of fine-tuning."""
    return sum(_of_task(e, r) for e, r in zip(errors, reference, strict=True))


def _of_task(error: float, reference: float) -> float:
    limit = 2 * reference
    if limit == 0:  # fine-tuning makes no mistake: neither may another
        return 250.0 if error == 0 else 0.0
    return 1000 * (max(0.0, limit - error) / limit) ** 2


def summary(accuracies: Accuracies, size: Mapping[str, int], base_bytes: int) -> dict[str, Any]:
    """Mean accuracy, S, parameters, S_p and KiB of every row."""
    errors = {
        row: [1 - float(np.mean(values)) for values in by_task.values()]
        for row, by_task in accuracies.items()
    }
    table = {}
    for row, by_task in accuracies.items():
        found = score(errors[row], errors["fine_tuning"])
        parameters = 1 + len(by_task) * size[row] / base_bytes
        table[row] = {
            "tasks": {task: float(np.mean(values)) for task, values in by_task.items()},
            "mean": 1 - float(np.mean(errors[row])),
            "score": found,
            "parameters": parameters,
            "score_per_parameter": found / parameters,
            "kib": size[row] / 1024,
        }
    return table


def markdown(table: Mapping[str, Any]) -> str:
    """The table for people; accuracies in per cent."""
    tasks = list(next(iter(table.values()))["tasks"])
    head = ["", *tasks, "mean", "S", "parameters", "S per parameter", "KiB a task"]
    lines = [_row(head), _row(["---"] * len(head))]
    for row, found in table.items():
        cells = [f"{100 * found['tasks'][task]:.1f}" for task in tasks]
        cells += [f"{100 * found['mean']:.1f}", f"{found['score']:.0f}"]
        cells += [f"{found['parameters']:.2f}", f"{found['score_per_parameter']:.0f}"]
        lines.append(_row([ROWS[row], *cells, f"{found['kib']:,.0f}"]))
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
