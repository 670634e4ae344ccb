# SPDX-License-Identifier: Apache-2.0
"""Figures: accuracy over the stream for every pair, and the sweeps."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from newfound_core.onda import OndaConfig
from newfound_training.online.measures import curve
from newfound_training.online.options import OnlineOptions
from newfound_training.online.streams import Target
from newfound_training.online.sweep import Streams

_COLOURS = {"batch": "tab:blue", "streaming": "tab:orange"}


def draw_streams(targets: Sequence[Target], options: OnlineOptions, path: Path) -> None:
    """Moving accuracy over the stream, one panel for each pair, between the two bounds."""
    columns = min(3, len(targets))
    rows = -(-len(targets) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(3.4 * columns, 2.5 * rows), squeeze=False, layout="constrained"
    )
    for target, panel in zip(targets, axes.flat, strict=False):
        _bounds(panel, target)
        for estimator in options.estimators:
            config = OndaConfig(options.frames_per_update, options.momentum, estimator)
            runs = [target.stream(config, number) for number in range(options.orders)]
            panel.plot(*_percent(curve(runs)), color=_COLOURS[estimator], label=estimator)
        panel.set_title(f"{target.source} → {target.target}", fontsize=9)
        panel.tick_params(labelsize=8)
    for panel in axes.flat[len(targets) :]:
        panel.set_axis_off()
    axes[0, 0].legend(fontsize=7)
    figure.supxlabel("frames", fontsize=9)
    figure.supylabel("accuracy of the last frames, %", fontsize=9)
    _save(figure, path)


def draw_sweep(target: Target, streams: Streams, path: Path) -> None:
    """Moving accuracy for several alpha (left) and n_t (right)."""
    figure, axes = pyplot.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
    titles = {"momentum": "momentum (α)", "frames_per_update": "frames per update (n_t)"}
    for panel, (name, values) in zip(axes, streams.items(), strict=True):
        _bounds(panel, target)
        colours = pyplot.get_cmap("viridis")(np.linspace(0, 0.9, len(values)))
        for colour, (value, runs) in zip(colours, values.items(), strict=True):
            panel.plot(*_percent(curve(runs)), color=colour, label=str(value))
        panel.set_title(f"{target.source} → {target.target}: {titles[name]}", fontsize=9)
        panel.set_xlabel("frames", fontsize=9)
        panel.tick_params(labelsize=8)
        panel.legend(fontsize=7, ncols=2)
    axes[0].set_ylabel("accuracy of the last frames, %", fontsize=9)
    _save(figure, path)


def _bounds(panel: Axes, target: Target) -> None:
    bounds = target.bounds()
    panel.axhline(100 * bounds["source_only"].mean(), color="tab:red", ls=":", label="source only")
    panel.axhline(
        100 * bounds["re_estimated"].mean(), color="tab:green", ls="--", label="re-estimated"
    )


def _percent(points: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return points[0], 100 * points[1]


def _save(figure: pyplot.Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
