# SPDX-License-Identifier: Apache-2.0
"""Each latent domain by its typical frames, a map of all frames, and differences of methods."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newfound_training.latent.tables import NAMES
from newfound_training.running.figures import pyplot, save_figure

TYPICAL = 6  # frames shown of each domain
MOST_POINTS = 3000  # in the map


def typical_frames(weights: np.ndarray, positions: np.ndarray, domain: int) -> np.ndarray:
    """Indices of frames that stand for a domain: well inside of it, and unlike each other.

    Of the half of its frames nearest to its middle, every n-th in the order of the footage.
    """
    own = np.flatnonzero(weights.argmax(1) == domain)
    if not len(own):
        return own
    share = weights[own, domain]
    middle = np.average(positions[own], axis=0, weights=share)
    distance = ((positions[own] - middle) ** 2).sum(1)
    inner = np.sort(own[np.argsort(distance, kind="stable")[: max(TYPICAL, len(own) // 2)]])
    return inner[np.linspace(0, len(inner) - 1, min(TYPICAL, len(inner))).round().astype(int)]


def map_of(statistics: np.ndarray) -> np.ndarray:
    """The two main directions of standardised statistics, [N, 2]."""
    values = statistics - statistics.mean(0)
    values = values / values.std(0).clip(min=1e-4)
    _, _, directions = np.linalg.svd(values, full_matrices=False)
    found = values @ directions[:2].T
    return found if found.shape[1] == 2 else np.pad(found, ((0, 0), (0, 2 - found.shape[1])))


def draw_domains(
    frames: Sequence[np.ndarray],
    weights: np.ndarray,
    statistics: np.ndarray,
    names: Sequence[str],
    path: Path,
) -> None:
    """A row of typical frames for each domain, and beside them the map of all frames."""
    count = len(names)
    positions = map_of(statistics)
    colours = pyplot.get_cmap("tab10")(np.arange(count) % 10)
    figure = pyplot.figure(figsize=(12, max(3.6, 1.45 * count)), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(7, 4))
    left, right = parts
    panels = left.subplots(count, TYPICAL, squeeze=False)
    share = weights.mean(0)
    for domain, row in enumerate(panels):
        chosen = typical_frames(weights, positions, domain)
        for column, panel in enumerate(row):
            panel.set_xticks([])
            panel.set_yticks([])
            for edge in panel.spines.values():
                edge.set_color(colours[domain])
                edge.set_linewidth(2.5)
            if column < len(chosen):
                panel.imshow(frames[int(chosen[column])])
            else:
                panel.set_visible(column == 0)
        row[0].set_ylabel(f"{names[domain]}\n{share[domain]:.0%}", fontsize=9)
    _draw_map(right, positions, weights, colours, names)
    save_figure(figure, path)


def _draw_map(
    figure: Any, positions: np.ndarray, weights: np.ndarray, colours: np.ndarray, names: Any
) -> None:
    """Every frame where its stem statistics are, in the mixed colours of its domains."""
    shown = np.linspace(0, len(weights) - 1, min(MOST_POINTS, len(weights))).round().astype(int)
    panel = figure.subplots()
    mixed = (weights[shown] @ colours).clip(0, 1)
    panel.scatter(*positions[shown].T, c=mixed, s=12, linewidths=0)
    for domain, name in enumerate(names):
        own = weights[:, domain]
        if own.sum() > 0:
            middle = np.average(positions, axis=0, weights=own)
            panel.annotate(
                name, middle, ha="center", va="center", fontsize=9, fontweight="bold",
                bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": colours[domain]},
            )  # fmt: skip
    panel.set_title("frames by stem statistics", fontsize=10)
    panel.set_xlabel("first main direction", fontsize=9)
    panel.set_ylabel("second main direction", fontsize=9)
    panel.tick_params(labelsize=8)


def draw_differences(found: Mapping[str, Any], path: Path) -> None:
    """Points above DIAL on unseen images: every pair, and the mean with its interval."""
    rows = [m for m in found if "above_dial" in found[m]]
    if not rows:
        return
    figure, panel = pyplot.subplots(figsize=(8, 1 + 0.45 * len(rows)), layout="constrained")
    for place, method in enumerate(reversed(rows)):
        entry = found[method]["above_dial"]["unseen"]
        points = 100 * np.array(entry["differences"])
        panel.plot(points, np.full(len(points), place), "o", color="0.7", markersize=4)
        mean = 100 * entry["pairs"]["mean"]
        low, high = (100 * v for v in entry["pairs"]["interval"] or [mean / 100] * 2)
        panel.errorbar(mean, place, xerr=[[mean - low], [high - mean]], fmt="s", capsize=4)
    panel.axvline(0, color="black", linewidth=0.8)
    panel.set_yticks(range(len(rows)), [NAMES[m] for m in reversed(rows)], fontsize=9)
    panel.set_xlabel("points above DIAL on images held out: pairs, mean and 95 % interval")
    save_figure(figure, path)
