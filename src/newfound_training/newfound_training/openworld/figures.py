# SPDX-License-Identifier: Apache-2.0
"""Figures: metrics over the steps, and the trade-off of rejecting."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newfound_training.running.figures import pyplot, save_figure

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
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=len(rows), fontsize=8)
    figure.supxlabel("known classes", fontsize=9)
    figure.supylabel("%", fontsize=9)
    save_figure(figure, path)


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
        point = 100 * np.mean([record["trade_off"]["at_threshold"] for record in records], axis=0)
        (line,) = panel.plot(curve[:, 1], curve[:, 0], label=name, linewidth=1.2)
        panel.plot(point[1], point[0], "o", color=line.get_color())
    panel.set_xlabel("unknowns rejected, %")
    panel.set_ylabel("knowns named right, %")
    panel.legend(fontsize=8)
    save_figure(figure, path)
