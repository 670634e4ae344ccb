# SPDX-License-Identifier: Apache-2.0
"""Unknown objects as other knowledge sees them, from their crops."""

from collections.abc import Callable, Iterable

import numpy as np

from newfound_core.detection.unknown_object import UnknownObject

Embed = Callable[[list[np.ndarray]], np.ndarray]  # images to looks [N, D] at length 1
Name = Callable[[list[np.ndarray]], list[str]]  # images to labels; empty: unknown
_VIEWS = 3  # all of which must have one name


def looks_of_entries(entries: Iterable[UnknownObject], embed: Embed) -> dict[str, np.ndarray]:
    """What each entry looks like to a network, from its best crop."""
    shown = [entry for entry in entries if entry.crops]
    if not shown:
        return {}
    looks: np.ndarray = embed([entry.crops[0].pixels() for entry in shown])
    return {entry.id: look for entry, look in zip(shown, looks, strict=True)}


def names_of_entries(entries: Iterable[UnknownObject], name: Name) -> dict[str, str]:
    """What each entry is called; left out are those whose best crops have no name, or several."""
    shown = [(entry.id, crop) for entry in entries for crop in entry.crops[:_VIEWS]]
    if not shown:
        return {}
    names: dict[str, set[str]] = {}
    labels = name([crop.pixels() for _, crop in shown])
    for (unknown_id, _), label in zip(shown, labels, strict=True):
        names.setdefault(unknown_id, set()).add(label)
    return {i: min(found) for i, found in names.items() if len(found) == 1 and min(found)}
