# SPDX-License-Identifier: Apache-2.0
"""Every option of `train_openworld` and `evaluate_openworld`."""

from dataclasses import dataclass
from typing import Literal

from newfound_core.errors import ConfigError
from newfound_training.running.options import CommonOptions, option

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

    method: Literal["ncm", "nno", "deepnno", "bdoc"] = option("bdoc", "see docs/training.md")
    class_order: int = option(0, "number of the shuffling of the classes")
    set: tuple[str, ...] = option((), "options of the method or its training, as name=value")
    precision: Literal["float32", "bfloat16"] = option(
        "float32", "bfloat16 trains in mixed precision, faster on recent GPUs"
    )
    memory_quality: int = option(0, "of remembered images as JPEG, 1 to 100; 0: exact, as PNG")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.memory_quality <= 100:
            raise ConfigError(f"memory_quality must be 0 to 100, got {self.memory_quality}")


@dataclass(frozen=True)
class EvaluateOpenWorldOptions(OpenWorldOptions):
    """Rows of a table: methods with their settings, over class orders and seeds."""

    rows: tuple[str, ...] = option(
        ("ncm", "nno", "deepnno", "bdoc", "joint: method=bdoc joint=true"),
        "each a method, or 'name: method=… option=value …'",
    )
    choice_classes: int = option(20, "classes on which choices are made, never reported")
    classes: Literal["reported", "choice", "all"] = option("reported", "which of them to use")
    orders: int = option(3, "shufflings of the classes")
    seeds: int = option(2, "runs of each order")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.orders < 1 or self.seeds < 1 or not self.rows:
            raise ConfigError("orders and seeds must be at least 1, and rows not empty")
