# SPDX-License-Identifier: Apache-2.0
"""A method with its options, written as one line: a row of a table.

    bdoc
    no local term: method=bdoc local_weight=0
    joint: method=bdoc joint=true learning_rate=0.05

An option belongs to the method's config, to the training of a step, to the embedding or to the
memory; its name says to which. `later_` before an option of training makes it hold for every step
but the first: `later_epochs=4`, `later_learning_rate=0.001`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import yaml

from newfound_core.errors import ConfigError
from newfound_core.open_world.heads import HEADS
from newfound_core.open_world.memory import MemoryConfig
from newfound_core.open_world.model import EmbeddingConfig
from newfound_core.open_world.step_config import StepConfig
from newfound_training.running.values import read_values

DEFAULT_EPOCHS = {"epochs": 8, "later_epochs": 4}
LATER = "later_"
_STEP = {field.name for field in fields(StepConfig)} - {"seed", "trainable"}
_EMBEDDING = {field.name for field in fields(EmbeddingConfig)}


@dataclass(frozen=True)
class Setting:
    """A method and everything that is set for it."""

    name: str  # of the row
    method: str
    head: dict[str, Any]
    step: dict[str, Any]
    embedding: EmbeddingConfig
    later: dict[str, Any]  # what differs in every step but the first
    held_out_share: float  # of every class, kept from training for the thresholds
    joint: bool  # all classes in one step

    @property
    def folder(self) -> str:
        """The row's name as that of a folder."""
        return self.name.replace(" ", "_")

    def step_config(self, step: int, seed: int) -> StepConfig:
        """How one step trains, counted from 0."""
        later = self.later if step > 0 else {}
        return StepConfig(**{**self.step, **later, "seed": seed})

    def memory_config(self, size: int) -> MemoryConfig:
        """What is kept between steps."""
        return MemoryConfig(size, self.held_out_share)


def parse_row(row: str) -> Setting:
    """Reads one row."""
    name, separator, rest = row.partition(":")
    given = parse_values(rest.split()) if separator else {"method": row.strip()}
    name = name.strip()
    if not re.fullmatch(r"[\w .,=+-]+", name) or not name.strip("."):
        raise ConfigError(f"a row is named by letters, digits, spaces and .,=+-, not {name!r}")
    if "method" not in given:
        raise ConfigError(f"row {row!r} names no method: write 'name: method=bdoc …'")
    return make_setting(name, str(given.pop("method")), given)


def parse_values(pairs: Iterable[str]) -> dict[str, Any]:
    """`name=value` pairs; values are read as in YAML."""
    values = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ConfigError(f"an option is written name=value, got {pair!r}")
        try:
            values[name.replace("-", "_")] = read_values(value)
        except yaml.YAMLError as error:
            raise ConfigError(f"{pair!r} has a value that is not YAML: {error}") from error
    return values


def make_setting(name: str, method: str, given: Mapping[str, Any]) -> Setting:
    """A setting from options of all kinds; those not given are the method's chosen ones."""
    if method not in HEADS:
        raise ConfigError(f"no method is named {method!r}; there are {', '.join(HEADS)}")
    values = {**DEFAULT_EPOCHS, "held_out_share": 0.2, "joint": False, **CHOSEN[method], **given}
    head_names = {field.name for field in fields(HEADS[method].config_type)}
    known = head_names | _STEP | _EMBEDDING | {"held_out_share", "joint"}
    unknown = sorted(set(values) - known - {LATER + name for name in _STEP})
    if unknown:
        raise ConfigError(
            f"{method} has no option {', '.join(unknown)}; it has {', '.join(sorted(known))} "
            f"(those of training also with {LATER} before them)"
        )
    step = {k: _tuple(v) for k, v in values.items() if k in _STEP}
    later = {
        name: _tuple(values[LATER + name]) for name in sorted(_STEP) if LATER + name in values
    }
    head = {k: v for k, v in values.items() if k in head_names}
    try:
        StepConfig(**step)
        StepConfig(**{**step, **later})
        HEADS[method].config_type(**head)
        embedding = EmbeddingConfig(**{k: v for k, v in values.items() if k in _EMBEDDING})
    except TypeError as error:  # a text where a number belongs
        raise ConfigError(
            f"{name!r} has a value of the wrong kind among {dict(given)}: {error}"
        ) from error
    return Setting(
        name,
        method,
        head,
        step,
        embedding,
        later,
        values["held_out_share"],
        values["joint"],
    )


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# Chosen on the choice classes of CIFAR-100 with the default network: `evaluate-openworld --preset
# choose_pretrained`; docs/results.md has the numbers.
CHOSEN: dict[str, dict[str, Any]] = {
    "ncm": {"thresholds": "percentile", "percentile": 75.0},
    "nno": {"learning_rate": 0.01},
    # Long features leave DeepNNO nothing to push apart; short ones need a higher rate.
    "deepnno": {
        "learning_rate": 0.1,
        "scale": 3.0,
        "threshold_from": "held_out",
        "rejected_weight": 9.0,
    },
    "bdoc": {"learning_rate": 0.01},
}
