# SPDX-License-Identifier: Apache-2.0
"""Descriptions of domains: which fields there are, and how far two values of one are apart.

M. Mancini, S. Rota Bulò, B. Caputo, E. Ricci, "AdaGraph: Unifying Predictive and Continuous Domain
Adaptation through Graphs", CVPR 2019, arXiv:1903.07062; thesis, chapter on predictive adaptation.
There the unit of an axis is the bandwidth of the kernel and differs between data sets; here all
fields have distances between 0 and 1 among the known domains, times the weight of the field:

    category    one-hot / sqrt(2)                      1 if different
    ordered     place in the list / (length - 1)       0 to 1
    number      (value - low) / (high - low)           0 to 1, beyond it outside
    cyclic      (cos, sin) / 2 of 2 pi value / period  0 to 1
    coordinate  value                                  as it is: stem_fields.py sets the unit
"""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from newfound_core.errors import ConfigError, DataError

Kind = Literal["category", "ordered", "number", "cyclic", "coordinate"]
KINDS: tuple[str, ...] = get_args(Kind)
Value = str | float
Metadata = Mapping[str, Value]  # by field; what is not known is left out
FARTHEST = 1e6  # of a number, in ranges of the known domains: beyond, squares would overflow


@dataclass(frozen=True)
class Field:
    """One property of a domain, such as its light, camera or time of day."""

    name: str
    kind: Kind = "category"
    values: tuple[str, ...] = ()  # of a category, those known; of an ordered field, all in order
    low: float = 0.0  # of a number, over the known domains
    high: float = 1.0
    period: float = 1.0  # of a cyclic field
    weight: float = 1.0
    measured: bool = False  # of each image: read off it, or reported by the camera

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(map(str, self.values)))
        checks = {
            f"kind must be one of {', '.join(KINDS)}": self.kind in KINDS,
            "weight must be above 0": self.weight > 0 and math.isfinite(self.weight),
            "period must be above 0": self.period > 0 and math.isfinite(self.period),
            "low must not be above high": self.low <= self.high,
            "values must be different": len(set(self.values)) == len(self.values),
            "an ordered field lists its values": self.kind != "ordered" or bool(self.values),
            "a measured field is a number": not self.measured
            or self.kind in ("number", "coordinate"),
        }
        broken = [rule for rule, holds in checks.items() if not holds]
        if broken:
            raise ConfigError(f"field {self.name!r}: {'; '.join(broken)}; got {self}")

    @property
    def width(self) -> int:
        """How many columns it has when encoded."""
        return {"category": len(self.values), "cyclic": 2}.get(self.kind, 1)

    def encode(self, value: Value) -> np.ndarray | None:
        """Its columns; None for a category that no domain has."""
        if self.kind == "category":
            if str(value) not in self.values:
                return None
            return np.array([v == str(value) for v in self.values]) * self.weight / math.sqrt(2)
        if self.kind == "ordered":
            return np.array([self.weight * self._place(str(value))])
        number = self.number(value)
        if self.kind == "cyclic":
            angle = 2 * math.pi * number / self.period
            return np.array([math.cos(angle), math.sin(angle)]) * self.weight / 2
        if self.kind == "coordinate":
            return np.array([self.weight * min(max(number, -FARTHEST), FARTHEST)])
        place = (number - self.low) / (self.high - self.low or 1.0)
        return np.array([self.weight * min(max(place, -FARTHEST), FARTHEST)])

    def fitted(self, values: Sequence[Value]) -> "Field":
        """The same field with the categories or the range of these values."""
        if self.kind == "category":
            return replace(self, values=tuple(sorted({str(value) for value in values})))
        if self.kind == "number":
            numbers = [self.number(value) for value in values]
            return replace(self, low=min(numbers), high=max(numbers))
        return self

    def _place(self, value: str) -> float:
        if value not in self.values:
            raise DataError(
                f"{self.name} is {value!r}, but its values are {', '.join(self.values)}"
                f"{_did_you_mean(value, self.values)}"
            )
        return self.values.index(value) / max(1, len(self.values) - 1)

    def number(self, value: Value) -> float:
        """The value as a number; a DataError if it is none."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise DataError(f"{self.name} must be a finite number, got {value!r}")
        return number


@dataclass(frozen=True)
class Encoded:
    """A description as a vector: NaN in the columns of fields that tell nothing."""

    columns: np.ndarray
    unknown: dict[str, str]  # why a field was not used, for a person

    @property
    def known(self) -> np.ndarray:
        """Which columns count."""
        return np.isfinite(self.columns)


@dataclass(frozen=True)
class Schema:
    """The fields of a graph's domains."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if not names:
            raise ConfigError("a schema needs at least one field")
        if len(set(names)) != len(names):
            raise ConfigError(f"the fields of a schema must differ, got {', '.join(names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(field.name for field in self.fields)

    @property
    def described(self) -> tuple[Field, ...]:
        """The fields that somebody has to write down."""
        return tuple(field for field in self.fields if not field.measured)

    @property
    def measured(self) -> tuple[Field, ...]:
        """The fields that are measured with each image."""
        return tuple(field for field in self.fields if field.measured)

    def field(self, name: str) -> Field:
        """The field of a name; a DataError with the nearest spelling if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise DataError(
            f"there is no field {name!r}; the fields are {', '.join(self.names)}"
            f"{_did_you_mean(name, self.names)}"
        )

    def check(self, metadata: Metadata) -> None:
        """A DataError for a field that does not exist, or a value that it cannot have."""
        for name, value in metadata.items():
            self.field(name).encode(value)

    def encode(self, metadata: Metadata) -> Encoded:
        """The vector of a description."""
        self.check(metadata)
        parts, unknown = [], {}
        for field in self.fields:
            value = metadata.get(field.name)
            columns = None if value is None else field.encode(value)
            if columns is None:
                unknown[field.name] = _unknown(field, value)
                columns = np.full(field.width, np.nan)
            parts.append(columns)
        return Encoded(np.concatenate(parts), unknown)

    def columns(self, *, measured: bool) -> np.ndarray:
        """Which columns belong to measured fields, or to the others."""
        return np.concatenate([np.full(f.width, f.measured == measured) for f in self.fields])

    def fitted(self, domains: Sequence[Metadata]) -> "Schema":
        """The same fields with the categories and ranges of these domains, which have them all."""
        for field in self.fields:
            if any(field.name not in domain for domain in domains):
                raise DataError(f"a domain has no value of the field {field.name!r}")
        return Schema(tuple(f.fitted([domain[f.name] for domain in domains]) for f in self.fields))

    def to_values(self) -> list[dict[str, Any]]:
        """Plain values for JSON; `from_values` reads them back."""
        return [asdict(field) | {"values": list(field.values)} for field in self.fields]

    @classmethod
    def from_values(cls, values: Sequence[Mapping[str, Any]]) -> "Schema":
        """Read what `to_values` wrote, or a person; an unknown property is a ConfigError."""
        known = {entry.name for entry in fields(Field)}
        for each in values:
            name = each.get("name")
            if unknown := sorted(set(each) - known):
                raise ConfigError(
                    f"field {name!r} has unknown properties {', '.join(unknown)}; "
                    f"known are {', '.join(sorted(known))}"
                )
            for key, value in each.items():
                if not isinstance(value, _TYPES.get(key, (int, float))):  # others: numbers
                    raise ConfigError(f"field {name!r}: {key} cannot be {value!r}")
        return cls(tuple(Field(**each) for each in values))


_TYPES: dict[str, Any] = {"name": str, "kind": str, "values": (list, tuple), "measured": bool}


def _unknown(field: Field, value: Value | None) -> str:
    if value is None:
        return f"{field.name} is not known"
    known = ", ".join(field.values)
    hint = _did_you_mean(str(value), field.values)
    return f"{field.name} {str(value)!r} is not among those known ({known}){hint}"


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f": did you mean {near[0]!r}?" if near else ""
