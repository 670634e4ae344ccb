# SPDX-License-Identifier: Apache-2.0
"""Figures: confusion, domain weights, and methods beside the baseline."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newfound_training.running.figures import pyplot, save_figure


def draw_confusion(counts: np.ndarray, names: Sequence[str], path: Path) -> None:
    """Shares of each true place that were called what, in percent."""
    shares = 100 * counts / counts.sum(1, keepdims=True).clip(min=1)
    side = 1.6 + 0.55 * len(names)
    figure, panel = pyplot.subplots(figsize=(side + 0.6, side), layout="constrained")
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    for row, column in np.ndindex(shares.shape):
        shade = "white" if shares[row, column] > 50 else "black"
        text = f"{shares[row, column]:.0f}"
        panel.text(column, row, text, ha="center", va="center", color=shade, fontsize=8)
    panel.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)
    panel.set_yticks(range(len(names)), names, fontsize=8)
    panel.set_xlabel("predicted", fontsize=9)
    panel.set_ylabel("true", fontsize=9)
    save_figure(figure, path)


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
