# SPDX-License-Identifier: Apache-2.0
"""Options of `train_latent` and `evaluate_latent`."""

from dataclasses import dataclass
from typing import Literal

from newfound_core.errors import ConfigError
from newfound_core.latent import LatentConfig
from newfound_training.running.options import CommonOptions, option
from newfound_training.running.training import TrainingOptions


@dataclass(frozen=True)
class MdaOptions(TrainingOptions, CommonOptions):
    """A source model, and how mDA trains it on two kinds of images."""

    domains: tuple[str, ...] = option((), "labelled domains of --data; all if none is named")
    checkpoint: str = option("", "source model to begin with; none: one is trained on --data")
    source_preset: str = option("small", "preset of train-source, where no model is given")
    train_source: bool = option(
        True, "train that model first; no: mDA begins with its pretrained weights"
    )
    source_domains: int = option(1, "latent domains of the labelled images (k_s)")
    known_domains: float = option(
        0.0,
        "share of the labelled images whose domain, their folder, is known; k_s is that of --data",
    )
    domain_loss_weight: float = option(0.5, "lambda_D: the branch names the known domains")
    target_entropy_weight: float = option(0.1, "lambda_C: certain classes on unlabelled images")
    certainty_weight: float = option(0.1, "lambda_E: each image in one domain")
    balance_weight: float = option(0.1, "lambda_B: domains used alike")
    branch_start: Literal["clusters", "random"] = option(
        "clusters", "what the domain branch learns first: clusters, or nothing, as in the thesis"
    )
    branch_start_steps: int = option(50, "steps of that, before anything else is trained")
    branch_logit_norm: bool = option(False, "normalise domain logits, so that domains are equal")
    branch_reduction: int = option(4, "step of the branch's grid; the thesis has 1 on ResNet")
    frozen_stages: int = option(0, "stem and stages whose weights stay; their statistics follow")
    crop_area: tuple[float, ...] = option((0.6, 1.0), "random crops, smallest and largest share")
    colour_jitter: float = option(0.0, "random brightness, contrast and saturation")
    iterations: int = option(100, "number of steps")
    batch_size: int = option(48, "images per step, half labelled and half not")
    lr: float = option(0.002, "learning rate of the source model's layers")
    new_lr: float = option(0.02, "learning rate of the domain branch, and of a new classifier")
    schedule: Literal["constant", "step", "cosine"] = option("step", "of the learning rate")
    drop_at: float = option(0.75, "with --schedule step: share of the steps before the drop")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.crop_area) != 2:
            raise ConfigError(f"crop_area must be two numbers, got {self.crop_area}")
        for name in ("frozen_stages", "branch_start_steps"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.known_domains <= 1:
            raise ConfigError(f"known_domains must be a share, 0 to 1, got {self.known_domains}")
        if self.checkpoint and not self.train_source:
            raise ConfigError("give --checkpoint or --no-train-source, not both")
        self.latent(self.source_domains, 1)

    def latent(self, source_domains: int, target_domains: int) -> LatentConfig:
        """The options of the model."""
        return LatentConfig(
            source_domains,
            target_domains,
            target_entropy_weight=self.target_entropy_weight,
            certainty_weight=self.certainty_weight,
            balance_weight=self.balance_weight,
            domain_loss_weight=self.domain_loss_weight,
            branch_logit_norm=self.branch_logit_norm,
            branch_reduction=self.branch_reduction,
        )


@dataclass(frozen=True)
class LatentOptions(MdaOptions):
    """Labelled images, and unlabelled footage of several sites in one heap."""

    footage: tuple[str, ...] = option(
        (), "folders of any layout, videos, rosbags; mixed, without labels", required=True
    )
    image_topic: str = option("", "of bags with several cameras")
    frames: int = option(2000, "frames at most, evenly spread over the footage")
    method: Literal["clusters", "mda"] = option(
        "clusters", "statistics of each cluster, nothing trained; or mDA's training"
    )
    target_domains: int = option(3, "latent domains of the footage (k_t)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frames < 2:
            raise ConfigError(f"frames must be at least 2, got {self.frames}")
        self.latent(self.source_domains, self.target_domains)
        if self.method == "clusters" and not self.train_source:
            raise ConfigError("--no-train-source is for --method mda: clusters train nothing")


ROWS = ("source", "onda", "pooled", "clusters", "separate", "dial", "mda_random", "mda", "known")
TRAINED = ("dial", "mda_random", "mda", "known")


@dataclass(frozen=True)
class EvaluateLatentOptions(MdaOptions):
    """Mixtures of target domains, and what becomes of them under each method."""

    target_data: str = option("", "folder of the target domains; none: that of --data")
    mixtures: tuple[str, ...] = option(
        (), "target domains of each mixture, joined by +, as art_painting+cartoon", required=True
    )
    methods: tuple[str, ...] = option(ROWS, "rows of the table")
    seeds: int = option(3, "repetitions, each with a source model and a division of its own")
    held_out: float = option(0.3, "share of the target that no method sees before it is tested")
    images_per_domain: int = option(0, "target images of each domain at most; 0: all")

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = sorted(set(self.methods) - set(ROWS))
        if unknown:
            raise ConfigError(f"unknown methods {unknown}; known are {', '.join(ROWS)}")
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, got {self.seeds}")
        if not 0 < self.held_out < 1:
            raise ConfigError(f"held_out must be a share in (0, 1), got {self.held_out}")
