# SPDX-License-Identifier: Apache-2.0
"""What became of the objects of each class, as a figure."""

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from newfound_training.detector.measures import OUTCOMES
from newfound_training.running.figures import pyplot, save_figure

_COLOURS = {"right": "#2a9d5c", "unknown": "#e9a13b", "wrong": "#c8443f", "missed": "#c9c9c9"}
Outcomes = Mapping[str, Mapping[str, int]]  # by class


def draw_outcomes(panels: Mapping[str, Outcomes], known: Collection[str], path: Path) -> None:
    """One panel per proposer, one bar per class; classes that nobody taught come first."""
    classes = {label for outcomes in panels.values() for label in outcomes}
    order = [*sorted(classes & set(known), reverse=True), *sorted(classes - set(known))]
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(4.2 * len(panels) + 1, 1.6 + 0.2 * len(order)),
        sharey=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    for panel, (title, outcomes) in zip(axes[0], panels.items(), strict=True):
        _bars(panel, outcomes, order)
        panel.set_title(title, fontsize=10)
    names = [label if label in known else f"{label} (never taught)" for label in order]
    axes[0, 0].set_yticks(range(len(order)), names, fontsize=8)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=len(OUTCOMES), fontsize=8)
    figure.supxlabel("objects, %", fontsize=9)
    save_figure(figure, path)


def _bars(panel: Axes, outcomes: Outcomes, order: list[str]) -> None:
    counts = np.array([[outcomes.get(c, {}).get(o, 0) for o in OUTCOMES] for c in order], float)
    shares = 100 * counts / counts.sum(1, keepdims=True).clip(min=1)
    left = np.zeros(len(order))
    for column, outcome in enumerate(OUTCOMES):
        name = {"right": "named right", "wrong": "named wrong"}.get(outcome, outcome)
        panel.barh(order, shares[:, column], left=left, color=_COLOURS[outcome], label=name)
        left += shares[:, column]
    panel.tick_params(labelsize=8)
    panel.set_xlim(0, 100)
