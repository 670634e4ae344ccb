# SPDX-License-Identifier: Apache-2.0
"""Figures as files, drawn without a screen; confusion of classes."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.figure import Figure

from newfound_core.storage import write_bytes

__all__ = ["pyplot", "save_figure"]
DPI = 100


def save_figure(figure: Figure, path: Path) -> None:
    """Write it as PNG, whole or not at all, and let go of it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=DPI, format="png")
    pyplot.close(figure)
    write_bytes(path, buffer.getvalue())


MOST_NAMES = 30  # with more classes, names would overlap
MOST_NUMBERS = 12  # and so would numbers


def confusion(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Count images by true class (rows) and predicted class (columns)."""
    return np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, -1)


def draw_confusions(
    counts: Mapping[str, np.ndarray], class_names: Sequence[str], path: Path
) -> None:
    """One panel for each title; shares of the true class, so that rows sum to 100 %."""
    side = min(8.0, 2.2 + 0.25 * len(class_names))
    figure, axes = pyplot.subplots(
        1, len(counts), figsize=(side * len(counts), side), squeeze=False, layout="constrained"
    )
    for panel, (title, matrix) in zip(axes[0], counts.items(), strict=True):
        _panel(panel, matrix, class_names if len(class_names) <= MOST_NAMES else ())
        panel.set_title(f"{title}: {100 * np.trace(matrix) / matrix.sum():.1f} %", fontsize=9)
    axes[0, 0].set_ylabel("true class", fontsize=9)
    figure.supxlabel("predicted class", fontsize=9)
    save_figure(figure, path)


def _panel(panel: Axes, matrix: np.ndarray, names: Sequence[str]) -> None:
    share = matrix / matrix.sum(1, keepdims=True).clip(min=1)
    panel.imshow(share, cmap="Blues", vmin=0, vmax=1)
    places = range(len(names))
    panel.set_xticks(places, names, rotation=90, fontsize=7)
    panel.set_yticks(places, names, fontsize=7)
    if len(matrix) <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(share):
            if value >= 0.005:
                colour = "white" if value > 0.5 else "black"
                text = f"{100 * value:.0f}"
                panel.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
