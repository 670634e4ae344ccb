# SPDX-License-Identifier: Apache-2.0
"""Options of the segmentation commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from newfound_core.backbones import build_backbone
from newfound_core.errors import ConfigError
from newfound_core.segmentation.network import SegmentationConfig, SegmentationNetwork
from newfound_core.segmentation.training import RULES, TrainingConfig
from newfound_training.running.options import RunOptions, option
from newfound_training.segmentation.data import LabelledSet, open_labelled

ROWS = (*RULES, "joint")
WITH_REFERENCE = "reference"  # the row of MiB with kept pictures: a memory, which MiB has not


@dataclass(frozen=True)
class PixelOptions(RunOptions):
    """What training and evaluation share: the data, the network and how it learns."""

    data: str = option("", "folder with images and label images", required=True)
    layout: Literal["tree", "nyu", "camvid", "voc"] = option("tree", "see docs/segmentation.md")
    block: int = option(10, "neighbouring pictures that stay together where the data are split")
    test_every: int = option(5, "one of so many blocks is tested on")
    backbone: str = option("efficientnet_lite0", "network; see newfound_core.backbones")
    weights: str = option("imagenet", "imagenet, a file of tensors, or random")
    stages: int = option(7, "keep only so many stages of the network; 0 is all")
    head: Literal["lraspp", "aspp"] = option("lraspp", "aspp is that of DeepLab-v3")
    width: int = option(128, "channels that the classifier sees")
    low_stride: int = option(8, "stride of the finer map of --head lraspp")
    output_stride: int = option(16, "stride of the last map; later stages are dilated")
    image_size: int = option(192, "pixels; the whole picture is squeezed into a square")
    frozen_stages: int = option(7, "stem and stages whose weights stay")
    variants: int = option(4, "random crops of every picture, made once")
    first_iterations: int = option(600, "steps of training the first classes")
    first_lr: float = option(1e-3, "learning rate of the backbone for the first classes")
    optimizer: Literal["adamw", "sgd"] = option("adamw", "of all trainings")
    batch_size: int = option(12, "pictures per step")
    weight_decay: float = option(1e-4, "pulls weights towards zero")
    head_factor: float = option(3.0, "times as fast the head learns")
    balance: float = option(
        0.0, "weigh pixels by their class's share to minus this power, 0 to 1: for rare classes"
    )

    def __post_init__(self) -> None:
        for name in ("block", "first_iterations", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.test_every < 2 or self.variants < 0 or self.frozen_stages < 0:
            raise ConfigError(
                "test_every must be at least 2, variants and frozen_stages 0 or more"
            )
        self.first_training(0)  # refused before anything is computed

    def labelled(self) -> LabelledSet:
        """The data."""
        return open_labelled(Path(self.data), self.layout, self.block, self.test_every)

    def build(self, classes: int) -> SegmentationNetwork:
        """The network, for classes with the background."""
        weights = None if self.weights == "random" else self.weights
        backbone = build_backbone(self.backbone, weights, self.stages or None)
        config = SegmentationConfig(
            self.head,
            self.width,
            low_stride=self.low_stride,
            output_stride=self.output_stride,
            steps=(classes - 1,) if classes > 1 else (),
        )
        return SegmentationNetwork(backbone, classes, config)

    def first_training(self, seed: int) -> TrainingConfig:
        """How the first classes are learned."""
        return TrainingConfig(
            iterations=self.first_iterations,
            batch_size=self.batch_size,
            learning_rate=self.first_lr,
            head_factor=self.head_factor,
            balance=self.balance,
            weight_decay=self.weight_decay,
            optimizer=self.optimizer,
            frozen=self.frozen_stages,
            seed=seed,
        )


@dataclass(frozen=True)
class TrainSegmentationOptions(PixelOptions):
    """Options of `train_segmentation`."""

    classes: tuple[str, ...] = option((), "to learn; all else is background; none: all of them")
    reject: float = option(0.0, "confidence below which the robot shows no class, 0 to 1")
    reference: int = option(
        30, "training pictures kept in the checkpoint, to check known classes on; 0: none"
    )
    half: bool = option(True, "write the checkpoint's tensors in half precision")
    terms: str = option("", "licence of the data, for the model card")


@dataclass(frozen=True)
class EvaluateSegmentationOptions(PixelOptions):
    """Options of `evaluate_segmentation`."""

    steps: tuple[str, ...] = option((), "classes of each step, separated by commas", required=True)
    protocol: Literal["overlapped", "disjoint"] = option(
        "overlapped", "disjoint: pictures of a step show no class of a later one"
    )
    rows: tuple[Literal["ft", "lwf", "ce", "kd", "mib", "reference", "joint"], ...] = option(
        ROWS, "of the table; reference is mib with --reference"
    )
    reference: int = option(
        20, "pictures of each earlier step that row reference distils on, without their labels"
    )
    choice: bool = option(
        False,
        "test on every --test-every'th block of the training pictures: to choose settings by",
    )
    seeds: int = option(1, "trainings of each row, from --seed on")
    iterations: int = option(400, "steps of training of each further step")
    lr: float = option(1e-3, "learning rate of the backbone in further steps")
    further_frozen_stages: int = option(
        0, "stem and stages whose weights stay in further steps; at least --frozen-stages"
    )
    images_per_step: int = option(160, "pictures of a further step at most; 0: all")
    least_share: float = option(
        0.005, "of a picture that a new class takes, for the step to have it"
    )
    negatives: int = option(
        0, "pictures without its classes that a further step has as well, all background"
    )
    distillation: float = option(1.0, "weight of distillation (lambda)")
    distil_labelled: bool = option(True, "distil also where the label is a new class")
    statistics: Literal["batch", "fixed"] = option(
        "batch", "of normalisation in further steps, in the layers that learn"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.seeds, self.iterations, self.reference) < 1:
            raise ConfigError("seeds, iterations and reference must be at least 1")
        for name in ("negatives", "images_per_step", "further_frozen_stages"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.least_share <= 1:
            raise ConfigError(f"least_share must be in [0, 1], got {self.least_share}")
        if len(self.steps) == 1 or not all(self.step_classes()):
            raise ConfigError(
                f"steps must name at least two steps of a class or more, got {self.steps}"
            )
        self.further_training("mib", 0)
        classes = [name for step in self.step_classes() for name in step]
        if len(set(classes)) != len(classes):
            raise ConfigError(f"a class can be learned in one step only, got {self.steps}")

    def step_classes(self) -> list[tuple[str, ...]]:
        """The classes of each step."""
        return [tuple(n.strip() for n in step.split(",") if n.strip()) for step in self.steps]

    def further_training(self, row: str, seed: int) -> TrainingConfig:
        """How a further step is learned in a row of the table."""
        first = self.first_training(seed)
        return TrainingConfig(
            iterations=self.iterations,
            batch_size=first.batch_size,
            learning_rate=self.lr,
            head_factor=first.head_factor,
            balance=first.balance,
            weight_decay=first.weight_decay,
            optimizer=first.optimizer,
            frozen=max(first.frozen, self.further_frozen_stages),
            statistics=self.statistics,
            rule="mib" if row == WITH_REFERENCE else row,
            distillation=self.distillation,
            distil_labelled=self.distil_labelled,
            seed=seed,
        )
