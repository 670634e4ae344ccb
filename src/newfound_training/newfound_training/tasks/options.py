# SPDX-License-Identifier: Apache-2.0
"""Options of the commands around tasks."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from newfound_core.errors import ConfigError
from newfound_core.metadata import BackboneSpec
from newfound_core.task_delta.checkpoint import Base, load_base
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_training.running.options import CommonOptions, option
from newfound_training.running.training import TrainingOptions
from newfound_training.tasks.data import Decoding, TaskImages


@dataclass(frozen=True)
class TaskTrainingOptions(TrainingOptions, CommonOptions):
    """What training a task and making a delta of a fine-tuned model have in common."""

    base: str = option("imagenet", "network to share: a checkpoint, a file of weights, imagenet")
    backbone: str = option(
        "", "network of a base that is no checkpoint; empty: efficientnet_lite0"
    )
    stages: int = option(0, "keep only so many stages of it; 0 is all")
    domains: tuple[str, ...] = option((), "domains to train on; none: all but --test-domains")
    test_domains: tuple[str, ...] = option((), "domains to measure on; none: a share held out")
    classes: tuple[str, ...] = option((), "classes of the task; none: all of the data")
    images_per_class: int = option(0, "train on at most so many; 0 is all")
    held_out_share: float = option(0.2, "of every class, without --test-domains")
    image_size: int = option(128, "pixels")
    crop_area: tuple[float, ...] = option((0.6, 1.0), "random crops, smallest and largest share")
    colour_jitter: float = option(0.2, "random brightness, contrast and saturation")
    mirror: bool = option(True, "mirror images at random; not for digits and signs")
    lr: float = option(1e-3, "rate of Adam for masks, k and normalisation")
    new_lr: float = option(0.03, "rate of stochastic gradient descent for the head")
    weight_decay: float = option(0.0, "of the head; masks have none, it would pull them to zero")
    keep_dead: bool = option(False, "leave output channels alone whose weights are nearly zero")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.crop_area) != 2:
            raise ConfigError(f"crop_area must be two numbers, got {self.crop_area}")
        if self.images_per_class < 0:
            raise ConfigError(f"images_per_class must not be negative: {self.images_per_class}")
        if self.base == "random":
            raise ConfigError("a random base could not be found again: save it as a checkpoint")

    def load_base(self) -> Base:
        """The network to share."""
        if not Path(self.base).is_dir():
            name = self.backbone or "efficientnet_lite0"
            options = {"stages": self.stages} if self.stages else {}
            return load_base(self.base, BackboneSpec(name, options))
        if self.backbone or self.stages:
            raise ConfigError(f"{self.base} is a checkpoint and tells its backbone and stages")
        return load_base(self.base)

    def images(self) -> TaskImages:
        """The images of the task."""
        return TaskImages(
            self.data,
            self.layout,
            self.domains,
            self.test_domains,
            self.classes,
            images_per_class=self.images_per_class,
            held_out_share=self.held_out_share,
        )

    def decoding(self) -> Decoding:
        """How they are read."""
        return Decoding(self.image_size, self.strict, self.cache_limit_gb)


@dataclass(frozen=True)
class TaskOptions(TaskTrainingOptions):
    """Options of `train-task`."""

    variant: Literal[
        "head", "norm", "piggyback", "piggyback_bn", "simple", "full", "channelwise"
    ] = option("full", "what the task may change of the base; see docs/tasks.md")
    head: Literal["classifier", "places"] = option("classifier", "which node will serve it")
    mask_gradient: Literal["straight_through", "sigmoid"] = option(
        "straight_through", "how gradients pass the threshold"
    )
    mask_margin: tuple[float, ...] = option(
        (), "start of the scores behind the bits, lowest and highest in multiples of --lr"
    )
    unit: Literal["weights", "relative"] = option(
        "weights", "of k1 and k2; relative: standard deviation of the layer's weights"
    )
    norm_statistics: Literal["base", "task"] = option(
        "base",
        "statistics of normalisation: the base's, or the task's, 8 bytes more a channel",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.mask_margin) not in (0, 2):
            raise ConfigError(f"mask_margin must be two numbers, got {self.mask_margin}")
        self.config()

    def config(self) -> TaskDeltaConfig:
        """How the masks are learned."""
        margin = (self.mask_margin[0], self.mask_margin[1]) if self.mask_margin else None
        return TaskDeltaConfig(
            self.variant,
            self.mask_gradient,
            margin,
            self.unit,
            self.keep_dead,
            self.norm_statistics,
        )


@dataclass(frozen=True)
class MakeDeltaOptions(TaskTrainingOptions):
    """Options of `make-delta`."""

    checkpoint: str = option("", "model fine-tuned from the base", required=True)
    iterations: int = option(30, "steps in which k, normalisation and head are trained")


ROWS = {
    "head": "frozen features",
    "norm": "normalisation alone",
    "piggyback": "Piggyback",
    "piggyback_bn": "Piggyback + BN",
    "simple": "BAT simple",
    "full": "BAT full",
    "make_delta": "make-delta",
    "fine_tuning": "fine-tuning",
}


@dataclass(frozen=True)
class EvaluationOptions(CommonOptions):
    """Options of `evaluate-tasks`."""

    tasks: tuple[str, ...] = option(
        (),
        "tasks below --data: <folder>/<domain>, or <folder>/<training>,<test>, and [a:b] for "
        "some of its classes",
        required=True,
    )
    rows: tuple[
        Literal[
            "head",
            "norm",
            "piggyback",
            "piggyback_bn",
            "simple",
            "full",
            "make_delta",
            "fine_tuning",
        ],
        ...,
    ] = option(tuple(ROWS), "rows of the table; fine_tuning is what the score is relative to")
    seeds: int = option(1, "trainings of each row on each task")
    base: str = option("imagenet", "network to share: a checkpoint, a file of weights, imagenet")
    iterations: int = option(100, "steps of each training")
    make_delta_iterations: int = option(30, "steps after the signs of fine-tuning were taken")
    batch_size: int = option(32, "images per step")
    image_size: int = option(96, "pixels")
    images_per_class: int = option(0, "train on at most so many; 0 is all")
    test_images_per_class: int = option(0, "measure on at most so many; 0 is all")
    rates: tuple[float, ...] = option(
        (1e-4, 3e-4, 1e-3, 3e-3), "of Adam; each row's is chosen on the first task alone"
    )
    head_rates: tuple[float, ...] = option(
        (0.01, 0.03, 0.1), "of the head; chosen for frozen features on the first task, used by all"
    )

    unit: Literal["weights", "relative"] = option(
        "relative", "of k1 and k2; relative: standard deviation of the layer's weights"
    )
    norm_statistics: Literal["base", "task"] = option(
        "base", "statistics of normalisation, of fine-tuning too: the base's, or the task's"
    )
    piggyback_margin: float = option(
        50.0, "start of Piggyback's scores in multiples of --rates; fewer for short trainings"
    )

    def __post_init__(self) -> None:
        if not self.rates or not self.head_rates:
            raise ConfigError("rates and head_rates must name at least one rate each")
        for name in ("seeds", "make_delta_iterations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("images_per_class", "test_images_per_class", "piggyback_margin"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")
        if "fine_tuning" not in self.rows:
            raise ConfigError("rows must have fine_tuning: the score is relative to it")
        if len(set(self.tasks)) != len(self.tasks):
            raise ConfigError(f"a task can be named once only, got {', '.join(self.tasks)}")
        for lr in self.rates:  # refused before anything is trained
            for new_lr in self.head_rates:
                replace(self.training(), lr=lr, new_lr=new_lr)

    def training(self) -> TaskOptions:
        """The options of one training; rates, variant and data are filled in."""
        return TaskOptions(
            data=self.data,
            out=self.out,
            device=self.device,
            base=self.base,
            iterations=self.iterations,
            batch_size=self.batch_size,
            image_size=self.image_size,
            unit=self.unit,
            norm_statistics=self.norm_statistics,
        )
