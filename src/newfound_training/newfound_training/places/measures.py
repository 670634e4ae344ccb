# SPDX-License-Identifier: Apache-2.0
"""What predictions say, and what paired differences say about methods."""

from collections.abc import Sequence
from typing import Any

import numpy as np

BINS = 10  # of the histograms of domain weights


def confusion(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Counts, [true, predicted]."""
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (labels, predicted), 1)
    return counts


def accuracies(counts: np.ndarray) -> dict[str, float]:
    """Over images, and as the mean over the places that occur."""
    totals = counts.sum(1)
    right = counts.diagonal()
    return {
        "accuracy": float(right.sum() / totals.sum()),
        "place_accuracy": float(np.mean(right[totals > 0] / totals[totals > 0])),
    }


def weight_histograms(weights: np.ndarray, folders: np.ndarray) -> dict[str, list[list[int]]]:
    """For each folder and each domain the number of images by weight, in equal bins of [0, 1]."""
    edges = np.linspace(0, 1, BINS + 1)
    return {
        str(folder): [
            np.histogram(column.clip(0, 1), edges)[0].tolist()
            for column in weights[folders == folder].T
        ]
        for folder in np.unique(folders)
    }


def paired_difference(differences: Sequence[float]) -> dict[str, Any]:
    """Mean of paired differences with its 95 % interval by Student's t; null for one pair."""
    values = np.asarray(differences, dtype=float)
    count, mean = len(values), float(np.mean(values))
    if count < 2:
        return {"mean": mean, "interval": None, "pairs": count}
    half = t_quantile(count - 1) * float(values.std(ddof=1)) / count**0.5
    return {"mean": mean, "interval": [mean - half, mean + half], "pairs": count}


def t_quantile(freedom: int, probability: float = 0.975) -> float:
    """Where Student's t distribution reaches a probability above one half.

    With t = sqrt(freedom) tan(a) the density is proportional to cos(a) ** (freedom - 1) for a
    between -90 and 90 degrees: a sum over a fine grid is enough.
    """
    angles = np.linspace(0, np.pi / 2, 200_001)
    density = np.cos(angles) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    reached = 0.5 + 0.5 * below / below[-1]
    return float(np.sqrt(freedom) * np.tan(np.interp(probability, reached, angles)))
