# SPDX-License-Identifier: Apache-2.0
"""What a generated folder was asked to hold, kept beside it so that a resumed run fits."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from newfound_sim.errors import DatasetError
from newfound_sim.objects import CLASSES, TOOLS
from newfound_sim.production import write_whole
from newfound_sim.workbench import find_domains

REQUEST = "request.json"


def find_classes(names: list[str]) -> list[str]:
    """The classes of these names; `all` and `tools` name groups."""
    groups = {"all": list(CLASSES), "tools": list(TOOLS)}
    wanted = groups.get(names[0], names) if len(names) == 1 else names
    for name in wanted:
        if name not in CLASSES:
            raise DatasetError(f"unknown class '{name}'; use all, tools, or: {', '.join(CLASSES)}")
    return list(wanted)


@dataclass(frozen=True)
class CropRequest:
    """Square pictures of single objects: `<domain>/<class>/00000.jpg` and so on."""

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    images: int  # per class and domain; each shows another instance
    size: int = 128
    samples: int = 8
    seed: int = 0  # other seeds show other instances: use two for training and testing

    def __post_init__(self) -> None:
        find_domains(self.domains)
        find_classes(list(self.classes))
        _at_least(1, images=self.images, samples=self.samples)
        _at_least(16, size=self.size)


@dataclass(frozen=True)
class DetectionRequest:
    """Pictures of the whole bench with depth, boxes and masks: `<domain>/images`, COCO JSON."""

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    images: int  # per domain
    width: int = 320
    height: int = 240
    most_objects: int = 6
    fewest_objects: int = 1
    samples: int = 12
    seed: int = 0

    def __post_init__(self) -> None:
        find_domains(self.domains)
        find_classes(list(self.classes))
        _at_least(1, images=self.images, samples=self.samples, fewest_objects=self.fewest_objects)
        _at_least(self.fewest_objects, most_objects=self.most_objects)
        _at_least(16, width=self.width, height=self.height)


def _at_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise DatasetError(f"{name} must be at least {least}, got {number}")


def keep(folder: Path, request: Any) -> None:
    """Write the request into its folder, or refuse a folder that was made for another one."""
    wanted = json.loads(json.dumps({"kind": type(request).__name__, **asdict(request)}))
    path = folder / REQUEST
    if path.exists():
        found = json.loads(path.read_text())
        other = {k: (found.get(k), v) for k, v in wanted.items() if found.get(k) != v}
        # More pictures of the same kind may be added to a folder at any time.
        if set(other) - {"images", "domains", "classes"} or "kind" in other:
            told = "; ".join(f"{k} is {a}, asked for {b}" for k, (a, b) in other.items())
            raise DatasetError(f"{folder} holds other data: {told}. Choose another --out.")
    write_whole(path, json.dumps(wanted, indent=2).encode())


def stream(*keys: int | str) -> np.random.Generator:
    """Random numbers that belong to these keys: the same in every process and order of work."""
    words = [k if isinstance(k, int) else int.from_bytes(k.encode(), "little") for k in keys]
    return np.random.default_rng(words)
