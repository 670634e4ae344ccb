# SPDX-License-Identifier: Apache-2.0
"""Every option of `train_places` and `evaluate_places`."""

from dataclasses import dataclass
from typing import Literal

from newfound_core.domain_branch import check_softening
from newfound_core.errors import ConfigError
from newfound_training.running.options import CommonOptions, make_options, option, read_preset
from newfound_training.running.training import TrainingOptions, require_not_negative

DomainPart = Literal["whole", "first", "last"]
_NOT_NEGATIVE = (
    "branch_lr",
    "images_per_place",
    "latent_domains",
    "stages",
    "frozen_stages",
    "remembered_variants",
)


@dataclass(frozen=True)
class PlacesOptions(TrainingOptions, CommonOptions):
    """A pretrained network that learns places from several domains, for one it has not seen."""

    method: Literal["bn", "wbn", "wbn-latent", "bsf"] = option(
        "wbn", "wbn is WBN* of the thesis: the sources are labelled"
    )
    branch_lr: float = option(0.03, "learning rate of the domain branch")
    source_domains: tuple[str, ...] = option((), "to train on; all but the targets if none")
    target_domains: tuple[str, ...] = option((), "only tested on; none: no test")
    domain_part: Literal["whole", "first", "last"] = option(
        "whole", "part of a name as loft_night that is the domain; first is loft, last is night"
    )
    images_per_place: int = option(0, "use so many of every folder and place; 0 is all")
    latent_domains: int = option(0, "with wbn-latent; 0 is as many as there are sources")
    backbone: str = option("efficientnet_lite0", "network; see newfound_core.backbones")
    stages: int = option(0, "keep this many stages of efficientnet_lite0; 0 keeps all")
    weights: str = option("imagenet", "imagenet, a file of tensors, or random")
    image_size: int = option(128, "pixels")
    frozen_stages: int = option(7, "stem and stages whose weights stay")
    remembered_variants: int = option(
        2,
        "random variants of an image for which the frozen stages are computed, once; their "
        "statistics then stay as pretrained. 0: computed in every step, statistics follow",
    )
    validation_share: float = option(0.1, "of every source and class, held out")
    crop_area: tuple[float, ...] = option((0.6, 1.0), "random crops, smallest and largest share")
    colour_jitter: float = option(0.2, "random brightness, contrast and saturation")
    softening: Literal["held-out", "given"] = option(
        "held-out", "how the two below are found with wbn: by holding out sources in turn"
    )
    assignment_smoothing: float = option(0.5, "blends domain weights with equal ones")
    assignment_temperature: float = option(1.0, "divides the domain branch's logits")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.crop_area) != 2:
            raise ConfigError(f"crop_area must be two numbers, got {self.crop_area}")
        for name in _NOT_NEGATIVE:
            require_not_negative(name, getattr(self, name))
        if both := sorted(set(self.source_domains) & set(self.target_domains)):
            raise ConfigError(f"{', '.join(both)} cannot be source and target at once")
        if self.weights == "random" and self.frozen_stages and self.remembered_variants:
            raise ConfigError(
                "frozen stages with random weights have nothing worth remembering: give "
                "weights, --frozen-stages 0 or --remembered-variants 0"
            )
        check_softening(self.assignment_temperature, self.assignment_smoothing)


@dataclass(frozen=True)
class EvaluationOptions(CommonOptions):
    """Methods, unseen domains and seeds of the table."""

    methods: tuple[Literal["bn", "wbn", "wbn-latent", "bsf"], ...] = option(
        ("bn", "wbn-latent", "wbn", "bsf"), "bn is the baseline and must be among them"
    )
    targets: tuple[str, ...] = option((), "unseen domains, one at a time; all domains if none")
    domain_part: Literal["whole", "first", "last"] = option(
        "whole", "part of a name as loft_night that is the domain; first is loft, last is night"
    )
    seeds: int = option(5, "trainings of every method and target, from --seed on")
    onda: bool = option(True, "also measure bn and wbn while ONDA follows the target's images")
    train_preset: str = option("small", "preset of train-places for all of them")
    iterations: int = option(0, "steps of every training; 0 is what the preset says")

    def __post_init__(self) -> None:
        if "bn" not in self.methods:
            raise ConfigError("methods must include bn: all others are compared with it")
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, got {self.seeds}")

    def training(self) -> PlacesOptions:
        """The options that all trainings share."""
        names = ("data", "layout", "seed", "device", "strict", "cache_limit_gb", "domain_part")
        values = read_preset("train-places", self.train_preset)
        values |= {name: getattr(self, name) for name in names}
        if self.iterations:
            values["iterations"] = self.iterations
        return make_options(PlacesOptions, values)
