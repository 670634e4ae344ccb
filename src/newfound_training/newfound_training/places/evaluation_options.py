# SPDX-License-Identifier: Apache-2.0
"""Every option of `evaluate_places`."""

from dataclasses import dataclass
from typing import Literal

from newfound_core.errors import ConfigError
from newfound_training.places.options import PlacesOptions
from newfound_training.running.options import CommonOptions, make_options, option, read_preset


@dataclass(frozen=True)
class EvaluationOptions(CommonOptions):
    """Which methods meet which unseen domains, and how often."""

    methods: tuple[Literal["bn", "wbn", "wbn-latent", "bsf"], ...] = option(
        ("bn", "wbn-latent", "wbn", "bsf"), "bn is the baseline and must be among them"
    )
    targets: tuple[str, ...] = option((), "unseen domains, one at a time; all domains if none")
    domain_part: Literal["whole", "first", "last"] = option(
        "whole", "part of a name as loft_night that is the domain; first is loft, last is night"
    )
    seeds: int = option(5, "trainings of every method and target, from --seed on")
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
