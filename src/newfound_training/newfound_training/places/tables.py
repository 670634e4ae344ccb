# SPDX-License-Identifier: Apache-2.0
"""Accuracies, paired differences to BN, the table of all targets, and figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newfound_training.running.figures import pyplot, save_figure

BINS = 10  # of the histograms of domain weights


def accuracies(counts: np.ndarray) -> dict[str, float]:
    """Over images, and as the mean over the places that occur."""
    totals = counts.sum(1)
    right = counts.diagonal()
    return {
        "accuracy": float(right.sum() / totals.sum()),
        "place_accuracy": float(np.mean(right[totals > 0] / totals[totals > 0])),
    }


def weight_histograms(weights: np.ndarray, folders: np.ndarray) -> dict[str, list[list[int]]]:
    """Number of images by weight, in equal bins of [0, 1], for each folder and domain."""
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
    """Quantile of Student's t distribution, for a probability above one half.

    With t = sqrt(freedom) tan(a) the density is proportional to cos(a) ** (freedom - 1) for a
    between -90 and 90 degrees: a sum over a fine grid is enough.
    """
    angles = np.linspace(0, np.pi / 2, 200_001)
    density = np.cos(angles) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    reached = 0.5 + 0.5 * below / below[-1]
    return float(np.sqrt(freedom) * np.tan(np.interp(probability, reached, angles)))


# The key of a row and its name.
ROWS = {
    "bn": "BN",
    "wbn-latent": "WBN, latent",
    "wbn-printed": "WBN*, as printed",
    "wbn": "WBN*, softened",
    "bsf": "BSF",
    "bn+onda": "BN + ONDA",
    "wbn+onda": "WBN* + ONDA",
}
FOLLOWED = tuple(key.removesuffix("+onda") for key in ROWS if key.endswith("+onda"))
Accuracies = Mapping[str, Mapping[str, Sequence[float]]]  # by row, target and seed


def rows_of(methods: Sequence[str], *, onda: bool = False) -> dict[str, str]:
    """The rows of the table; WBN* has two, as printed and softened."""
    return {
        key: name
        for key, name in ROWS.items()
        if method_of(key) in methods and (onda or not key.endswith("+onda"))
    }


def method_of(row: str) -> str:
    """The method whose runs are behind a row."""
    return row.removesuffix("-printed").removesuffix("+onda")


def accuracy_of(row: str, found: Mapping[str, Any], measure: str = "accuracy") -> float:
    """Return what a run measured for a row."""
    if row == "wbn-printed":
        found = found["as_printed"]
    return (found["onda"] if row.endswith("+onda") else found)[measure]


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


def draw_weights(
    histograms: Mapping[str, Sequence[Sequence[int]]], domains: Sequence[str], path: Path
) -> None:
    """A row for each folder of images, a column for each source: images by domain weight."""
    figure, axes = pyplot.subplots(
        len(histograms),
        len(domains),
        figsize=(1.2 + 1.7 * len(domains), 0.6 + 0.95 * len(histograms)),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    for row, (folder, columns) in zip(axes, histograms.items(), strict=True):
        for panel, counts in zip(row, columns, strict=True):
            edges = np.linspace(0, 1, len(counts) + 1)
            panel.stairs(np.array(counts) / max(1, sum(counts)), edges, fill=True)
            panel.tick_params(labelsize=7)
        row[0].set_ylabel(folder, fontsize=8, rotation=0, ha="right", va="center")
    for panel, domain in zip(axes[0], domains, strict=True):
        panel.set_title(domain, fontsize=8)
    figure.supxlabel("weight of the source", fontsize=9)
    save_figure(figure, path)


def draw_differences(result: Mapping[str, Any], path: Path) -> None:
    """Points of accuracy above BN: every seed of every target, and the mean with its interval."""
    targets, methods = result["targets"], [m for m in result["methods"] if m != "bn"]
    figure, panel = pyplot.subplots(figsize=(1.5 + 1.6 * len(methods), 3), layout="constrained")
    colours = pyplot.get_cmap("tab10")
    for x, method in enumerate(methods):
        for number, target in enumerate(targets):
            values = 100 * np.array(result["differences"][method][target])
            place = x - 0.2 + 0.08 * number
            label = target if x == 0 else None
            panel.plot(
                np.full(len(values), place), values, ".", color=colours(number), label=label
            )
        average = result["average"][method]["above_bn"]
        low, high = average["interval"] or [average["mean"]] * 2
        panel.plot([x + 0.25] * 2, [100 * low, 100 * high], "k-", linewidth=1.5)
        panel.plot(x + 0.25, 100 * average["mean"], "ks")
    panel.axhline(0, color="grey", linewidth=0.8)
    panel.set_xticks(range(len(methods)), [result["methods"][m] for m in methods], fontsize=8)
    panel.set_ylabel("accuracy above BN, points", fontsize=9)
    panel.legend(title="target", fontsize=7, title_fontsize=8, loc="best")
    save_figure(figure, path)
