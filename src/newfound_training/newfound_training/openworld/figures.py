# SPDX-License-Identifier: Apache-2.0
"""Figures: metrics over the steps, confusion, and the trade-off of rejecting."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.figure import Figure

PANELS = {
    "closed_world_without_rejection": "closed world, no rejection",
    "closed_world_with_rejection": "closed world, rejection",
    "open_set": "open set: unknowns rejected",
    "owr": "OWR",
    "owr_harmonic": "OWR-H",
    "auroc": "AUROC",
}
Records = list[dict[str, Any]]  # of the steps of one run


def draw_steps(rows: Mapping[str, Sequence[Records]], path: Path) -> None:
    """Every metric over the number of known classes: mean of the runs, and their spread."""
    figure, axes = pyplot.subplots(2, 3, figsize=(10, 5.4), layout="constrained")
    for panel, (metric, title) in zip(axes.flat, PANELS.items(), strict=True):
        for name, runs in rows.items():
            _curve(panel, name, runs, metric)
        panel.set_title(title, fontsize=10)
        panel.tick_params(labelsize=8)
    axes[0, 0].legend(fontsize=7)
    figure.supxlabel("known classes", fontsize=9)
    figure.supylabel("%", fontsize=9)
    _save(figure, path)


def _curve(panel: Any, name: str, runs: Sequence[Records], metric: str) -> None:
    values = np.array([[_value(record, metric) for record in records] for records in runs])
    counts = [record["known_classes"] for record in runs[0]]
    mean, spread = 100 * values.mean(0), 100 * values.std(0)
    (line,) = panel.plot(counts, mean, marker="o", markersize=3, label=name)
    if len(runs) > 1:
        panel.fill_between(
            counts, mean - spread, mean + spread, color=line.get_color(), alpha=0.15
        )


def _value(record: dict[str, Any], metric: str) -> float:
    value = record["metrics"][record["metrics"]["chosen"]][metric]
    return np.nan if value is None else value


def draw_trade_off(rows: Mapping[str, Sequence[dict[str, Any]]], path: Path) -> None:
    """Knowns named right against unknowns rejected, for all thresholds; a dot where it decides."""
    figure, panel = pyplot.subplots(figsize=(4.6, 4.2), layout="constrained")
    for name, records in rows.items():
        curve = 100 * np.mean([record["trade_off"]["curve"] for record in records], axis=0)
        point = 100 * np.mean([record["trade_off"]["at_limit"] for record in records], axis=0)
        (line,) = panel.plot(curve[:, 1], curve[:, 0], label=name, linewidth=1.2)
        panel.plot(point[1], point[0], "o", color=line.get_color())
    panel.set_xlabel("unknowns rejected, %")
    panel.set_ylabel("knowns named right, %")
    panel.legend(fontsize=8)
    _save(figure, path)


def draw_confusion(record: dict[str, Any], labels: Sequence[str], path: Path) -> None:
    """What each class was taken for, as shares of its row; the last one is unknown."""
    counts = np.array(record["confusion"], dtype=float)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    names = [*labels, "unknown"]
    side = max(4.0, 0.24 * len(names) + 1.5)
    figure, panel = pyplot.subplots(figsize=(side, side), layout="constrained")
    image = panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    panel.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    panel.set_yticks(range(len(names)), names, fontsize=7)
    panel.set_xlabel("decided")
    panel.set_ylabel("true")
    figure.colorbar(image, shrink=0.6)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.stem}.part.png")
    figure.savefig(part, dpi=130)
    pyplot.close(figure)
    part.replace(path)
