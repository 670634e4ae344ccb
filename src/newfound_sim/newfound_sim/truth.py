# SPDX-License-Identifier: Apache-2.0
"""The truth about a picture: which objects are seen and where, which place, which light."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Box = tuple[int, int, int, int]  # left, top, width, height in pixels


@dataclass(frozen=True)
class SeenObject:
    """An object in a picture."""

    instance: int  # the same number over a whole scenario, from 1
    label: str
    box: Box
    visible: float  # share of its outline that is seen, 0 to 1


@dataclass(frozen=True)
class Truth:
    """What a picture truly shows."""

    objects: tuple[SeenObject, ...] = ()
    place: str = ""
    domain: str = ""
    illumination: str = ""
    next_illumination: str = ""
    illumination_share: float = 0.0

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Truth:
        """The truth that `dataclasses.asdict` turned into JSON; raises if it is not one."""
        return Truth(
            objects=objects_from_json(document["objects"]),
            place=str(document["place"]),
            domain=str(document["domain"]),
            illumination=str(document["illumination"]),
            next_illumination=str(document["next_illumination"]),
            illumination_share=float(document["illumination_share"]),
        )


def objects_from_json(entries: Sequence[Mapping[str, Any]]) -> tuple[SeenObject, ...]:
    """The objects that `dataclasses.asdict` turned into JSON."""
    return tuple(_object_from_json(entry) for entry in entries)


def _object_from_json(entry: Mapping[str, Any]) -> SeenObject:
    left, top, width, height = map(int, entry["box"])
    instance, visible = int(entry["instance"]), float(entry["visible"])
    if min(left, top, width, height, instance) < 0:
        raise ValueError(f"box and instance must not be negative: {dict(entry)}")
    return SeenObject(instance, str(entry["label"]), (left, top, width, height), visible)
