# SPDX-License-Identifier: Apache-2.0
"""The network of each method, around the same pretrained backbone."""

from typing import Any

from torch import nn

from newfound_core.backbones import Backbone, build_backbone
from newfound_core.errors import ConfigError
from newfound_core.places import (
    BsfClassifier,
    BsfConfig,
    PlaceClassifier,
    WbnClassifier,
    WbnConfig,
)
from newfound_training.places.options import PlacesOptions


def pretrained(options: PlacesOptions) -> Backbone:
    """The backbone with its pretrained weights; those of its first stages will not change."""
    weights = None if options.weights == "random" else options.weights
    kept: dict[str, Any] = {"stages": options.stages} if options.stages else {}
    backbone = build_backbone(options.backbone, weights, **kept)
    for part in frozen_parts(backbone, options.frozen_stages):
        part.requires_grad_(False)
    return backbone


def frozen_parts(backbone: Backbone, count: int) -> list[nn.Module]:
    """The stem and the stages that are not trained."""
    parts: list[nn.Module] = [backbone.stem, *backbone.stages]
    if count > len(parts):
        raise ConfigError(
            f"{backbone.name} has a stem and {len(parts) - 1} stages here, so at most "
            f"{len(parts)} of them can be frozen, not {count}"
        )
    return parts[:count]


def build_place_model(options: PlacesOptions, places: int, sources: int) -> PlaceClassifier:
    """The classifier of a method for a number of places and source domains."""
    backbone = pretrained(options)
    if options.method == "bn":
        return PlaceClassifier(backbone, places)
    if options.method == "bsf":
        return BsfClassifier(backbone, places, sources, BsfConfig())
    latent = options.method == "wbn-latent"
    domains = (options.latent_domains or sources) if latent else sources
    return WbnClassifier(backbone, places, domains, WbnConfig(latent=latent))


def domain_names(options: PlacesOptions, model: PlaceClassifier, sources: tuple[str, ...]) -> list:
    """What the checkpoint calls the model's domains; latent ones are numbered."""
    if options.method == "bn":
        return []
    if isinstance(model, WbnClassifier) and options.method == "wbn-latent":
        return [f"latent_{number}" for number in range(model.domains)]
    return list(sources)
