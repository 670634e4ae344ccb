# SPDX-License-Identifier: Apache-2.0
"""Figures: accuracy over the stream for every pair, and the sweeps."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from newfound_training.online.options import OnlineOptions
from newfound_training.online.streams import Streams, Target
from newfound_training.online.tables import changed, curve
from newfound_training.running.figures import pyplot, save_figure

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
            config = options.onda(estimator)
            runs = [target.stream(config, number) for number in range(options.orders)]
            panel.plot(*_percent(curve(runs)), color=_COLOURS[estimator], label=estimator)
        panel.set_title(f"{target.source} → {target.target}", fontsize=9)
        panel.tick_params(labelsize=8)
    for panel in axes.flat[len(targets) :]:
        panel.set_axis_off()
    axes[0, 0].legend(fontsize=7)
    figure.supxlabel("frames", fontsize=9)
    figure.supylabel("accuracy of the last frames, %", fontsize=9)
    save_figure(figure, path)


def draw_changes(targets: Sequence[Target], options: OnlineOptions, path: Path) -> None:
    """Moving accuracy over the stream, one panel for each number of changed conditions."""
    groups: dict[int, list[Target]] = {}
    for target in targets:
        number = len(changed(target.source, target.target, options.conditions))
        groups.setdefault(number, []).append(target)
    figure, axes = pyplot.subplots(
        1, len(groups), figsize=(3.4 * len(groups), 2.8), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for number, panel in zip(sorted(groups), axes[0], strict=True):
        members = groups[number]
        _levels(panel, [target.bounds() for target in members])
        for estimator in options.estimators:
            runs = [
                target.stream(options.onda(estimator), order)
                for target in members
                for order in range(options.orders)
            ]
            shortest = min(len(run) for run in runs)
            points = _percent(curve([run[:shortest] for run in runs]))
            panel.plot(*points, color=_COLOURS[estimator], label=estimator)
        panel.set_title(f"{number} changed, {len(members)} pairs", fontsize=9)
        panel.tick_params(labelsize=8)
    axes[0, 0].legend(fontsize=7)
    axes[0, 0].set_ylabel("accuracy of the last frames, %", fontsize=9)
    figure.supxlabel("frames", fontsize=9)
    save_figure(figure, path)


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
    save_figure(figure, path)


def _bounds(panel: Axes, target: Target) -> None:
    _levels(panel, [target.bounds()])


def _levels(panel: Axes, bounds: Sequence[dict[str, np.ndarray]]) -> None:
    """The two bounds, averaged over targets, as horizontal lines."""
    looks = {"source_only": ("tab:red", ":"), "re_estimated": ("tab:green", "--")}
    for name, (colour, style) in looks.items():
        level = 100 * np.mean([found[name].mean() for found in bounds])
        panel.axhline(level, color=colour, ls=style, label=_LABELS[name])


_LABELS = {"source_only": "source only", "re_estimated": "re-estimated"}


def _percent(points: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return points[0], 100 * points[1]
