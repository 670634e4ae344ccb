# SPDX-License-Identifier: Apache-2.0
"""The table: mean accuracy of each method on each unseen domain, and how far it is above BN."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from newfound_training.places.measures import paired_difference

# The key of a row, its name, and where a cell has its accuracy.
ROWS = {
    "bn": "BN",
    "wbn-latent": "WBN, latent",
    "wbn-printed": "WBN*, as printed",
    "wbn": "WBN*, softened",
    "bsf": "BSF",
}
Accuracies = Mapping[str, Mapping[str, Sequence[float]]]  # by row, target and seed


def rows_of(methods: Sequence[str]) -> dict[str, str]:
    """The rows of the table; WBN* has two, as printed and softened."""
    return {key: name for key, name in ROWS.items() if key.removesuffix("-printed") in methods}


def accuracy_of(row: str, cell: Mapping[str, Any], measure: str = "accuracy") -> float:
    """What a cell says for a row."""
    return (cell["as_printed"] if row == "wbn-printed" else cell)[measure]


def summary(accuracies: Accuracies) -> dict[str, Any]:
    """Means for each target and over all, and paired differences to BN.

    A pair is one target and one seed, trained on the same batches by both methods.
    """
    targets = list(accuracies["bn"])
    differences = {
        row: {
            target: (np.array(values[target]) - np.array(accuracies["bn"][target])).tolist()
            for target in targets
        }
        for row, values in accuracies.items()
    }
    by_target = {
        target: {
            row: _entry(values[target], differences[row][target])
            for row, values in accuracies.items()
        }
        for target in targets
    }
    average = {
        row: _entry(_flat(values, targets), _flat(differences[row], targets))
        for row, values in accuracies.items()
    }
    return {
        "targets": by_target,
        "average": average,
        "accuracies": accuracies,
        "differences": differences,
    }


def _flat(values: Mapping[str, Sequence[float]], targets: Sequence[str]) -> list[float]:
    return [value for target in targets for value in values[target]]


def _entry(values: Sequence[float], differences: Sequence[float]) -> dict[str, Any]:
    return {"accuracy": float(np.mean(values)), "above_bn": paired_difference(differences)}


def markdown(result: Mapping[str, Any]) -> str:
    """The table for people, accuracies in percent."""
    targets = list(result["targets"])
    head = ["method", *targets, "mean", "above BN (95 %)"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, name in result["methods"].items():
        entries = [result["targets"][target][row] for target in targets]
        entries.append(result["average"][row])
        values = [f"{100 * entry['accuracy']:.1f}" for entry in entries]
        lines.append(f"| {' | '.join([name, *values, _above(row, entries[-1])])} |")
    return "\n".join(lines) + "\n"


def _above(row: str, entry: Mapping[str, Any]) -> str:
    if row == "bn":
        return ""
    found = entry["above_bn"]
    if found["interval"] is None:
        return f"{100 * found['mean']:+.1f}"
    low, high = (100 * value for value in found["interval"])
    return f"{100 * found['mean']:+.1f} ({low:+.1f} to {high:+.1f})"
