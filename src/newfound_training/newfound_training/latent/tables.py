# SPDX-License-Identifier: Apache-2.0
"""The table of `evaluate_latent`: means, and paired differences to DIAL and to clusters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from newfound_training.places.tables import paired_difference

NAMES = {
    "source": "source only",
    "onda": "ONDA on the mixture",
    "pooled": "one set of statistics, nothing trained",
    "clusters": "clusters, nothing trained",
    "separate": "true domains, nothing trained",
    "dial": "DIAL with target entropy",
    "mda_random": "mDA, random start",
    "mda": "mDA, start from clusters",
    "known": "mDA, true target domains",
}
REFERENCES = ("dial", "clusters")
PARTS = ("seen", "unseen")


def summary(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> dict[str, Any]:
    """Means of each method and its differences; a pair is one mixture and one seed."""
    found = {(r["method"], r["mixture"], r["seed"]): r for r in rows}
    keys = sorted({(r["mixture"], r["seed"]) for r in rows})
    result: dict[str, Any] = {}
    for method in methods:
        own = [found[method, *key] for key in keys]
        entry: dict[str, Any] = {
            part: float(np.mean([row[part] for row in own])) for part in PARTS
        }
        for extra in ("purity", "used_domains"):
            if extra in own[0]:
                entry[extra] = float(np.mean([row[extra] for row in own]))
        for reference in REFERENCES:
            if reference in methods and reference != method:
                other = [found[reference, *key] for key in keys]
                differences = {part: _differences(own, other, part) for part in PARTS}
                entry[f"above_{reference}"] = differences
        result[method] = entry
    return result


def _differences(
    own: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], part: str
) -> dict[str, Any]:
    """Paired differences over all pairs, and over the means of mixtures."""
    pairs = [a[part] - b[part] for a, b in zip(own, other, strict=True)]
    mixtures = sorted({row["mixture"] for row in own})
    means = [
        np.mean([d for d, row in zip(pairs, own, strict=True) if row["mixture"] == mixture])
        for mixture in mixtures
    ]
    return {
        "pairs": paired_difference(pairs),
        "mixtures": paired_difference([float(mean) for mean in means]),
        "differences": pairs,
    }


def markdown(found: Mapping[str, Any]) -> str:
    """The table for people, in per cent."""
    references = [name for name in REFERENCES if name in found]
    columns = [(reference, part) for reference in references for part in PARTS]
    head = ["method", *PARTS, *(f"{part}, above {reference}" for reference, part in columns)]
    lines = [_line(head), _line(["---"] * len(head))]
    for method, entry in found.items():
        cells = [NAMES[method], *(f"{100 * entry[part]:.1f}" for part in PARTS)]
        for reference, part in columns:
            cells.append(_shown(entry.get(f"above_{reference}", {}).get(part)))
        lines.append(_line(cells))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(difference: Any) -> str:
    if difference is None:
        return ""
    value = difference["pairs"]
    if value["interval"] is None:
        return f"{100 * value['mean']:+.1f}"
    low, high = (100 * bound for bound in value["interval"])
    return f"{100 * value['mean']:+.1f} ({low:+.1f} to {high:+.1f})"
