# SPDX-License-Identifier: Apache-2.0
"""The table of all pairs: bounds, online accuracies, and how much of the gap was closed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from newfound_training.online.measures import accuracies, gap_closed, mean_of
from newfound_training.online.options import OnlineOptions
from newfound_training.online.streams import Target
from newfound_training.running.confusion import confusion

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
