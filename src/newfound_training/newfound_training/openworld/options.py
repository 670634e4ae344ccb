# SPDX-License-Identifier: Apache-2.0
"""Every option of `train_openworld` and `evaluate_openworld`, and a table's row as one line.

    bdoc
    no local term: method=bdoc local_weight=0
    joint: method=bdoc joint=true learning_rate=0.05

An option of a row belongs to the method's config, to the training of a step, to the embedding or
to the memory; its name says to which. `later_` before an option of training makes it hold for
every step but the first: `later_epochs=4`, `later_learning_rate=0.001`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import yaml

from newfound_core.errors import ConfigError
from newfound_core.open_world.heads import CHOSEN, HEADS
from newfound_core.open_world.memory import MemoryConfig
from newfound_core.open_world.model import EmbeddingConfig
from newfound_core.open_world.step_config import StepConfig
from newfound_training.running.options import CommonOptions, option, read_values

DEFAULT_TRAIN_SPLIT = ("train",)


@dataclass(frozen=True)
class OpenWorldOptions(CommonOptions):
    """Data, network and protocol, the same for training and evaluation."""

    train_split: tuple[str, ...] = option(
        DEFAULT_TRAIN_SPLIT, "first levels of the tree with the images to learn from"
    )
    test_split: tuple[str, ...] = option(
        ("test",), "the same for testing; none: a share of those to learn from is held out"
    )
    test_share: float = option(0.2, "of every class, held out if there is no test split")
    images_per_class: int = option(0, "to learn from; 0 takes all")
    test_images_per_class: int = option(0, "to test with; 0 takes all")

    backbone: str = option("efficientnet_lite0", "network; see newfound_core.backbones")
    weights: str = option("imagenet", "imagenet, a file of tensors, or random")
    stages: int = option(0, "keep only so many stages of the network: smaller, faster; 0 is all")
    width: float = option(1.0, "of the cifar networks: 0.25 is a quarter of the channels")
    image_size: int = option(96, "pixels")
    frozen_stages: int = option(7, "stem and stages that never train; their output is cached")
    crops: int = option(2, "random variants kept of each image behind frozen stages")
    other_cameras: bool = option(
        False, "variants also differ in resolution and light, as cameras do; for ridge_lda"
    )

    choice_classes: int = option(20, "classes on which choices are made, never reported")
    classes: Literal["reported", "choice", "all"] = option(
        "all", "which classes of the data to use"
    )
    known_classes: int = option(0, "how many classes are learned; 0: all, none stays unknown")
    unknown_classes: int = option(0, "how many of the others are shown as unknowns; 0: all")
    initial_classes: int = option(0, "classes of the first step; 0: all known ones")
    classes_per_step: int = option(4, "classes of every later step")
    memory_size: int = option(2000, "samples of earlier steps that are kept")

    def __post_init__(self) -> None:
        self._check_splits()
        for name in (
            "images_per_class",
            "test_images_per_class",
            "stages",
            "frozen_stages",
            "crops",
        ):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.weights == "random" and self.frozen_stages:
            raise ConfigError("stages with random weights must train: set frozen_stages to 0")

    def _check_splits(self) -> None:
        # `--test-split ""` also names none.
        object.__setattr__(self, "test_split", tuple(name for name in self.test_split if name))
        if both := sorted(set(self.train_split) & set(self.test_split)):
            raise ConfigError(f"{', '.join(both)} cannot be learned from and tested with at once")
        if not self.test_split and not 0 < self.test_share < 1:
            raise ConfigError(f"test_share must be in (0, 1), got {self.test_share}")


@dataclass(frozen=True)
class TrainOpenWorldOptions(OpenWorldOptions):
    """One method, one order of the classes, one checkpoint."""

    method: Literal["ncm", "nno", "deepnno", "bdoc", "ridge_lda"] = option(
        "bdoc", "see docs/training.md"
    )
    class_order: int = option(0, "number of the shuffling of the classes")
    set: tuple[str, ...] = option((), "options of the method or its training, as name=value")
    precision: Literal["float32", "bfloat16"] = option(
        "float32", "bfloat16 trains in mixed precision, faster on recent GPUs"
    )
    memory_quality: int = option(0, "of remembered images as JPEG, 1 to 100; 0: exact, as PNG")
    blank: bool = option(
        False, "leave the classes out of the checkpoint: a start that knows how things differ"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blank and not HEADS[self.method].has_background:
            able = ", ".join(name for name, head in HEADS.items() if head.has_background)
            raise ConfigError(f"{self.method} cannot begin without a class; {able} can")
        if not 0 <= self.memory_quality <= 100:
            raise ConfigError(f"memory_quality must be 0 to 100, got {self.memory_quality}")


@dataclass(frozen=True)
class EvaluateOpenWorldOptions(OpenWorldOptions):
    """Rows of a table: methods with their settings, over class orders and seeds."""

    rows: tuple[str, ...] = option(
        ("ncm", "nno", "deepnno", "bdoc", "joint: method=bdoc joint=true"),
        "each a method, or 'name: method=… option=value …'",
    )
    classes: Literal["reported", "choice", "all"] = option(
        "reported", "which classes of the data to use"
    )
    orders: int = option(3, "shufflings of the classes")
    seeds: int = option(2, "runs of each order")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.orders < 1 or self.seeds < 1 or not self.rows:
            raise ConfigError("orders and seeds must be at least 1, and rows not empty")


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
        """Options of one step's training, counted from 0."""
        later = self.later if step > 0 else {}
        return StepConfig(**{**self.step, **later, "seed": seed})

    def memory_config(self, size: int) -> MemoryConfig:
        """Options of the memory between steps."""
        return MemoryConfig(size, self.held_out_share)


def parse_row(row: str) -> Setting:
    """Parse one row."""
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
