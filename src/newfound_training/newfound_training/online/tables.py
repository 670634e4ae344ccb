# SPDX-License-Identifier: Apache-2.0
"""Accuracies of streams, and the tables of all pairs and of all changed conditions.

`correct` is a boolean array, one value for each frame in the order of the stream. Accuracy after
a share of the stream is that of the tenth of the stream which begins there, with the statistics
as they are then (and still following).

Where a domain's name says its conditions in a fixed order, joined by `_` or `-`, as the simulator
(`artificial_kinect_white`) and the layout `kth_handtool` name them, gains are also given by the
number of conditions that changed.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from newfound_core.errors import ConfigError
from newfound_training.online.options import OnlineOptions
from newfound_training.online.streams import Streams, Target
from newfound_training.running.figures import confusion

SHARES = (25, 50, 90)  # percent of the stream, as in the thesis
WINDOW = 10  # percent
SMALLEST_GAP = 0.02  # below it a share of the gap would be noise divided by noise


def accuracies(correct: np.ndarray) -> dict[str, float]:
    """Accuracy after 25, 50 and 90 percent, in the last half, and over all."""
    count = len(correct)
    values = {}
    for share in SHARES:
        first = count * share // 100
        window = correct[first : max(first + 1, count * (share + WINDOW) // 100)]
        values[f"after_{share}"] = float(window.mean())
    values["last_half"] = float(last_half(correct).mean())
    values["all"] = float(correct.mean())
    return values


def last_half(correct: np.ndarray) -> np.ndarray:
    """The second half of a stream."""
    return correct[len(correct) // 2 :]


def gap_closed(online: float, source_only: float, re_estimated: float) -> float | None:
    """The share of the way from source only up to re-estimated.

    None where re-estimating gains less than two points, or loses: there is no gap to close.
    """
    gap = re_estimated - source_only
    return None if gap < SMALLEST_GAP else (online - source_only) / gap


def mean_of(measures: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each measure."""
    return {name: float(np.mean([m[name] for m in measures])) for name in measures[0]}


def curve(streams: Sequence[np.ndarray], window: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Frame numbers and moving accuracy, averaged over streams of the same length."""
    together = np.mean(np.stack(streams).astype(float), axis=0)
    window = min(window, max(1, len(together) // 5))
    sums = np.cumsum(np.insert(together, 0, 0.0))
    values = (sums[window:] - sums[:-window]) / window
    return np.arange(len(values)) + window, values


METHODS = ("source_only", "batch", "streaming", "re_estimated")
Row = dict[str, Any]


def changed(source: str, target: str, conditions: Sequence[str]) -> list[str]:
    """The conditions in which two domains differ."""
    values = [re.split("[_-]", name) for name in (source, target)]
    for name, parts in zip((source, target), values, strict=True):
        if len(parts) != len(conditions):
            raise ConfigError(
                f"the domain {name!r} has {len(parts)} parts, but the conditions are "
                f"{', '.join(conditions)}"
            )
    return [name for name, a, b in zip(conditions, *values, strict=True) if a != b]


def by_changes(rows: Sequence[Row], conditions: Sequence[str]) -> dict[str, Row]:
    """Means over the pairs in which equally many conditions changed; none without conditions."""
    groups: dict[int, list[Row]] = {}
    for row in rows if conditions else ():
        number = len(changed(row["source"], row["target"], conditions))
        groups.setdefault(number, []).append(row)
    return {str(number): _summary(groups[number]) for number in sorted(groups)}


def only_changed(rows: Sequence[Row], conditions: Sequence[str]) -> dict[str, Row]:
    """Means over the pairs in which one condition changed, for each condition."""
    groups: dict[str, list[Row]] = {}
    for row in rows if conditions else ():
        names = changed(row["source"], row["target"], conditions)
        if len(names) == 1:
            groups.setdefault(names[0], []).append(row)
    return {name: _summary(groups[name]) for name in conditions if name in groups}


def _summary(rows: Sequence[Row]) -> Row:
    """Accuracy in the last half of the stream, and gain over source only with its error."""
    found: Row = {"pairs": len(rows)}
    for name in METHODS:
        if name not in rows[0]:
            continue
        found[name] = float(np.mean([row[name]["last_half"] for row in rows]))
        if name != "source_only":
            gains = [row[name]["last_half"] - row["source_only"]["last_half"] for row in rows]
            error = float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else None
            found[f"{name}_gain"] = {"mean": float(np.mean(gains)), "standard_error": error}
    return found


def changes_markdown(groups: dict[str, Row], title: str) -> str:
    """A table with a line for each group, in percent and points."""
    names = [name for name in METHODS if name in next(iter(groups.values()))]
    heads = [title, "pairs", *(f"{n.replace('_', ' ')}, %" for n in names)]
    heads += [f"gain of {n.replace('_', '-')}, points" for n in names[1:]]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for group, row in groups.items():
        cells = [group, str(row["pairs"]), *(f"{100 * row[n]:.1f}" for n in names)]
        cells += [_gain(row[f"{n}_gain"]) for n in names[1:]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _gain(gain: dict[str, float | None]) -> str:
    mean, error = gain["mean"], gain["standard_error"]
    assert mean is not None
    return f"{100 * mean:+.1f}" + ("" if error is None else f" ± {100 * error:.1f}")


COLUMNS = ("after_25", "after_50", "after_90", "last_half")


def row_of(target: Target, options: OnlineOptions) -> dict[str, Any]:
    """Everything about one pair."""
    bounds = target.bounds()
    orders = [target.order(number) for number in range(options.orders)]
    row: dict[str, Any] = {
        "source": target.source,
        "target": target.target,
        "frames": len(orders[0]),
        "orders": options.orders,
    }
    for name, correct in bounds.items():
        row[name] = mean_of([accuracies(correct[order]) for order in orders])
    for estimator in options.estimators:
        config = options.onda(estimator)
        streams = [target.stream(config, number) for number in range(options.orders)]
        row[estimator] = mean_of([accuracies(correct) for correct in streams])
        row[estimator]["last_half_spread"] = float(
            np.std([accuracies(correct)["last_half"] for correct in streams])
        )
        row[estimator]["gap_closed"] = _closed(row, estimator)
    return row


def _closed(row: dict[str, Any], estimator: str) -> float | None:
    return gap_closed(
        row[estimator]["last_half"],
        row["source_only"]["last_half"],
        row["re_estimated"]["last_half"],
    )


def average_of(rows: Sequence[dict[str, Any]], estimators: Sequence[str]) -> dict[str, Any]:
    """Means over all pairs; `gap_closed` is that of these means.

    `mean_gap_closed` is the mean of the shares of those pairs that have a gap.
    """
    average: dict[str, Any] = {}
    for name in ("source_only", "re_estimated", *estimators):
        average[name] = {c: float(np.mean([row[name][c] for row in rows])) for c in COLUMNS}
    for name in estimators:
        average[name]["gap_closed"] = _closed(average, name)
        closed = [row[name]["gap_closed"] for row in rows if row[name]["gap_closed"] is not None]
        average[name]["mean_gap_closed"] = float(np.mean(closed)) if closed else None
        average[name]["pairs_with_gap"] = len(closed)
    return average


def sweep_summary(streams: Streams) -> dict[str, dict[str, dict[str, Any]]]:
    """Accuracies for each value, averaged over orders."""
    return {
        name: {str(v): mean_of([accuracies(c) for c in runs]) for v, runs in values.items()}
        for name, values in streams.items()
    }


def confusions(targets: Sequence[Target], options: OnlineOptions) -> dict[str, np.ndarray]:
    """Images of each class taken for each class, for every method, over all pairs and orders."""
    found: dict[str, Any] = {}

    def add(name: str, labels: np.ndarray, predicted: np.ndarray, classes: int) -> None:
        found[name] = found.get(name, 0) + confusion(labels, predicted, classes)

    for target in targets:
        classes = len(target.loaded.labels)
        add("source only", target.labels, target.source_only(), classes)
        for estimator in options.estimators:
            for number in range(options.orders):
                predicted = target.predictions(options.onda(estimator), number)
                add(estimator, target.labels[target.order(number)], predicted, classes)
        add("re-estimated", target.labels, target.re_estimated(), classes)
    return found


def markdown(rows: Sequence[dict[str, Any]], average: dict[str, Any]) -> str:
    """The table for people, accuracies in percent."""
    estimators = [n for n in ("batch", "streaming") if n in rows[0]]
    lines = [
        "| pair | method | after 25 % | after 50 % | after 90 % | last half | gap closed |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in (*rows, average):
        pair = f"{row['source']} → {row['target']}" if "source" in row else "**average**"
        for name in ("source_only", *estimators, "re_estimated"):
            values = [f"{100 * row[name][column]:.1f}" for column in COLUMNS]
            closed = row[name].get("gap_closed")
            values.append("" if closed is None else f"{100 * closed:.0f} %")
            lines.append(f"| {' | '.join([pair, _NAMES[name], *values])} |")
            pair = ""
        if "dial" in row:  # one number, of a network that does not change during the stream
            lines.append(f"|  | {_NAMES['dial']} |  |  |  | {100 * row['dial']:.1f} |  |")
    return "\n".join(lines) + "\n"


_NAMES = {
    "source_only": "source only",
    "batch": "ONDA, `batch`",
    "streaming": "ONDA, `streaming`",
    "re_estimated": "re-estimated on the whole target",
    "dial": "two-domain training (DIAL), all frames",
}
