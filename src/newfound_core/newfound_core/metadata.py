# SPDX-License-Identifier: Apache-2.0
"""What `checkpoint.json` says: everything about a model but its tensors.

A new method is a line in `METHODS` and a builder in `models`.
"""

import json
import math
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.preprocessing import Preprocessing


@dataclass(frozen=True)
class Method:
    """Properties of a method's checkpoint that are checked before its model is built."""

    label_tensor: str  # its first dimension counts the labels; empty: there are no classes
    infinite: tuple[str, ...] = ()  # tensors in which infinity has a meaning


_CLASSIFIER = Method("classifier.weight")
# A rejection threshold that is not fitted yet is infinite.
_OPEN_WORLD = Method("head.means.value", infinite=("head.rejection_threshold",))

METHODS: dict[str, Method] = {
    "source": _CLASSIFIER,  # a plain classifier; ONDA starts from it
    "adagraph": _CLASSIFIER,  # the same, with a graph of domains
    "bn": _CLASSIFIER,  # places: the baseline
    "wbn": _CLASSIFIER,  # places: known or latent domains, by its option `latent`
    "bsf": _CLASSIFIER,
    "mda": _CLASSIFIER,  # latent domains, assigned by a branch or by centres of clusters
    "ncm": _OPEN_WORLD,
    "nno": _OPEN_WORLD,
    "deepnno": _OPEN_WORLD,
    "bdoc": _OPEN_WORLD,
    "ridge_lda": _OPEN_WORLD,
    "cumix": Method("class_vectors"),  # names by word vectors; its labels are the seen classes
    "delta": Method("head.classifier.weight"),  # a task over a base; `task_delta.checkpoint`
    "segmentation": _CLASSIFIER,  # a class at every pixel; the first label is the background
    "regions": Method(""),  # finds objects without naming them; its one label is "object"
}


FORMAT_VERSION = 2


@dataclass(frozen=True)
class Provenance:
    """Origin of a checkpoint; for people, nothing depends on it."""

    command: str = ""
    seed: int | None = None
    data: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    date: str = ""  # ISO 8601, UTC

    @classmethod
    def now(
        cls, command: str, seed: int | None, data: str, metrics: Mapping[str, Any]
    ) -> "Provenance":
        """The provenance of what this process just made."""
        versions = {"python": platform.python_version()}
        for package in ("newfound_core", "torch", "torchvision", "timm"):
            try:
                versions[package] = version(package)
            except PackageNotFoundError:
                continue  # run from the source tree, or not needed
        date = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(command, seed, data, dict(metrics), versions, date)


@dataclass(frozen=True)
class BackboneSpec:
    """Name and options with which `build_backbone` makes the network again."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Metadata:
    """Everything about a checkpoint but its tensors."""

    method: str
    backbone: BackboneSpec
    labels: tuple[str, ...]
    preprocessing: Preprocessing
    domains: tuple[str, ...] = ()  # names of the source domains; latent ones are numbered
    thresholds: dict[str, float] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # the method's own
    memory: bool = False  # whether there is a folder `memory`
    provenance: Provenance = field(default_factory=Provenance)
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            known = ", ".join(METHODS)
            raise CheckpointError(
                f"the method {self.method!r} is not known; this version of newfound has {known}"
            )
        object.__setattr__(self, "labels", _names("labels", self.labels))
        object.__setattr__(self, "domains", _names("domains", self.domains))
        for name, value in self.thresholds.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value):
                raise CheckpointError(f"the threshold {name!r} must be a number, got {value!r}")

    def to_json(self, **more: Any) -> str:
        """The content of `checkpoint.json`; `more` are entries besides the metadata."""
        values = asdict(self) | {"preprocessing": self.preprocessing.to_dict()} | more
        ordered = {"format_version": values.pop("format_version"), **values}
        try:
            return json.dumps(ordered, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"the metadata of the checkpoint holds what JSON cannot: {error}. Options and "
                "metrics must be finite numbers, texts, lists and tables of them."
            ) from error

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "Metadata":
        """Check and take over what `to_json` wrote; errors say what is wrong, not where."""
        _check_version(values)
        _check_keys("checkpoint", values, {f.name for f in fields(cls)})
        backbone, provenance = values["backbone"], values["provenance"]
        _check_keys("backbone", backbone, {f.name for f in fields(BackboneSpec)})
        _check_keys("provenance", provenance, {f.name for f in fields(Provenance)})
        _check_types(values, _TYPES)
        _check_types(backbone, {"name": str, "options": dict})
        try:
            preprocessing = Preprocessing.from_dict(values["preprocessing"])
        except ConfigError as error:
            raise CheckpointError(str(error)) from error
        return cls(
            **dict(values)
            | {
                "backbone": BackboneSpec(**backbone),
                "preprocessing": preprocessing,
                "provenance": Provenance(**provenance),
            }
        )

    def with_memory(self, memory: bool) -> "Metadata":
        """The same, with or without the folder `memory` declared."""
        return replace(self, memory=memory)


_TYPES: dict[str, type] = {
    "method": str,
    "labels": list,
    "domains": list,
    "thresholds": dict,
    "options": dict,
    "memory": bool,
}


def _check_version(values: Mapping[str, Any]) -> None:
    found = values.get("format_version")
    if type(found) is not int or found < 1:
        raise CheckpointError(
            f"format_version is {found!r}, expected {FORMAT_VERSION}: this is not the "
            "checkpoint.json of a newfound checkpoint"
        )
    if found > FORMAT_VERSION:
        raise CheckpointError(
            f"format_version {found} is from a newer newfound; this one reads up to "
            f"{FORMAT_VERSION}. Update newfound, or export the checkpoint with this version."
        )
    if found < FORMAT_VERSION:
        raise CheckpointError(
            f"format_version {found} is from an older newfound; this one reads "
            f"{FORMAT_VERSION}. Train or export the checkpoint again."
        )


def _check_keys(what: str, values: Any, names: set[str]) -> None:
    if not isinstance(values, Mapping):
        raise CheckpointError(f"{what} must be a table of values, got {values!r}")
    unknown, missing = sorted(set(values) - names), sorted(names - set(values))
    if unknown or missing:
        raise CheckpointError(f"{what}: unknown entries {unknown}, missing entries {missing}")


def _check_types(values: Mapping[str, Any], types: Mapping[str, type]) -> None:
    for name, expected in types.items():
        if not isinstance(values[name], expected):
            raise CheckpointError(
                f"{name} must be a {expected.__name__}, got {type(values[name]).__name__}"
            )


def _names(what: str, names: Any) -> tuple[str, ...]:
    """Different texts that are not empty."""
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise CheckpointError(f"{what} must be texts that are not empty, got {name!r}")
    if len(set(names)) != len(names):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)[:10]
        raise CheckpointError(f"{what} must be different, but {twice} occur more than once")
    return tuple(names)
