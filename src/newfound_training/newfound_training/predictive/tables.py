# SPDX-License-Identifier: Apache-2.0
"""The table and the figure of the first frames."""

from pathlib import Path

import numpy as np

from newfound_training.predictive.starts import METHODS
from newfound_training.running.figures import pyplot, save_figure

WINDOWS = {"first": (0, 20), "second": (20, 40), "later": (40, None)}
DRAWN = ("source", "source_prior", "mean", "kernel", "measured", "both", "own_fixed")

Row = dict[str, float | None]
Recognised = dict[str, list[np.ndarray]]  # by target: which frames were, in each order


def table_of(streams: dict[str, Recognised]) -> dict[str, Row]:
    """A row for each start, with the share of the way from source to the target's own."""
    table = {method: row_of(found) for method, found in streams.items()}
    for window in WINDOWS:
        for row in table.values():
            row[f"{window}_gap_closed"] = _gap_closed(
                table["source"][window], row[window], table["own_fixed"][window]
            )
    return table


def row_of(found: Recognised) -> Row:
    """Means over targets and seeds, and the standard error over targets of the first frames."""
    row: Row = {}
    for window, (start, end) in WINDOWS.items():
        means = [np.mean([s[start:end].mean() for s in of]) for of in found.values()
                 if len(of[0]) > start]  # fmt: skip
        row[window] = float(np.mean(means)) if means else None
    first = [np.mean([s[:20].mean() for s in of]) for of in found.values()]
    row["first_error"] = float(np.std(first) / np.sqrt(max(1, len(first) - 1)))
    return row


def _gap_closed(low: float | None, value: float | None, high: float | None) -> float | None:
    """The share of the way from low to high, if that is two points at least."""
    if low is None or value is None or high is None or high - low < 0.02:
        return None
    return (value - low) / (high - low)


def markdown(table: dict[str, Row]) -> str:
    """The table, in per cent."""

    def shown(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.1f}"

    lines = ["| start, then ONDA | 1 to 20 | 21 to 40 | later | gap closed in 1 to 20 |", "|" +
             "---|" * 5]  # fmt: skip
    for method, row in table.items():
        cells = [row["first"], row["second"], row["later"], row["first_gap_closed"]]
        lines.append(f"| {METHODS[method]} | {' | '.join(map(shown, cells))} |")
    return "\n".join(lines) + "\n"


def draw(streams: dict[str, Recognised], path: Path) -> None:
    """Accuracy along the stream from the starts that tell the story."""
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for method in (method for method in DRAWN if method in streams):
        each = np.concatenate([np.stack(of) for of in streams[method].values()]).mean(0)
        width = min(10, len(each))
        smooth = np.convolve(each, np.ones(width) / width, mode="valid")
        frames = np.arange(len(smooth)) + (width + 1) / 2
        axes.plot(frames, 100 * smooth, label=METHODS[method])
    axes.set_xlabel("frame (mean over ten)")
    axes.set_ylabel("recognised, %")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    save_figure(figure, path)
