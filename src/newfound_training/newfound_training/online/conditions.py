# SPDX-License-Identifier: Apache-2.0
"""Domains that are combinations of conditions: what is gained where one, two, three changed.

A domain's name says its conditions in a fixed order, joined by `_` or `-`, as the simulator
(`artificial_kinect_white`) and the layout `kth_handtool` name them.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from newfound_core.errors import ConfigError

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
