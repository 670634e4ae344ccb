# SPDX-License-Identifier: Apache-2.0
"""Backbones by name."""

import inspect
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from torch import nn

from newfound_core.backbones.contract import Backbone, Recipe, Tensors, keep_stages
from newfound_core.backbones.weights import ADVICE, load_strictly, read_weights
from newfound_core.errors import BackboneError, ConfigError, WeightsError

# The modules of the networks, each with a table RECIPES; imported when one of them is built,
# since torchvision and timm take seconds.
FAMILIES = {
    "efficientnet_lite": ("efficientnet_lite0",),
    "cifar_resnets": (
        *("cifar_resnet8", "cifar_resnet18", "cifar_resnet20", "cifar_resnet32"),
        "wide_resnet28",
    ),
    "torchvision_networks": (
        *("resnet10", "resnet18", "resnet50"),
        *("alexnet", "alexnet_bn"),
        *("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large"),
    ),
}


def available_backbones() -> tuple[str, ...]:
    """The names `build_backbone` knows, the default first; besides them `timm/<name>`."""
    return tuple(name for names in FAMILIES.values() for name in names)


def build_backbone(
    name: str = "efficientnet_lite0",
    weights: str | PathLike[str] | None = None,
    stages: int | None = None,
    **options: Any,
) -> Backbone:
    """Build a network by name, with weights from a file or `"imagenet"`, or random ones.

    `stages` keeps only so many of its stages: a smaller and faster network whose features are
    the mean of an earlier map, still pretrained.

    A file holds either the tensors of the library's network under the library's names (a
    classifier in it is left out) or those of a backbone built here. Either way every tensor
    must fit. Options are those of the network: `width` of the CIFAR ResNets, `dropout` of
    AlexNet, `drop_path_rate` of EfficientNet, anything timm takes for `timm/<name>`.
    """
    recipe = _recipe(name)
    _check_options(name, recipe, options)
    tensors = _tensors(name, recipe, weights)
    network = recipe.create(**options)
    if tensors is not None and not _is_own(tensors):
        kept = {k: v for k, v in tensors.items() if not k.startswith(recipe.classifier)}
        _load_trunk(network, kept, recipe, f"{name} ({weights})")
    backbone = recipe.assemble(network)
    if stages is not None:
        backbone = keep_stages(backbone, stages)
        options = options | {"stages": stages}
    if tensors is not None and _is_own(tensors):
        load_strictly(backbone, tensors, f"{name} ({weights})")
    backbone.name, backbone.options = name, dict(options)
    return backbone


def _recipe(name: str) -> Recipe:
    if name.startswith("timm/"):
        from newfound_core.backbones.timm_networks import timm_recipe

        return timm_recipe(name.removeprefix("timm/"))
    for family, names in FAMILIES.items():
        if name in names:
            return import_module(f"newfound_core.backbones.{family}").RECIPES[name]
    known = ", ".join(available_backbones())
    raise BackboneError(f"no backbone is called {name!r}. Known: {known}, and timm/<name>.")


def _check_options(name: str, recipe: Recipe, options: dict[str, Any]) -> None:
    if "pretrained" in options:  # torchvision would fetch weights, and a checkpoint can ask for it
        raise ConfigError(f"{name} does not take 'pretrained': weights have their own argument")
    try:
        inspect.signature(recipe.create).bind(**options)
    except TypeError as error:
        raise ConfigError(f"{name} cannot be built with {options}: {error}") from error


def _tensors(name: str, recipe: Recipe, weights: str | PathLike[str] | None) -> Tensors | None:
    if weights is None:
        return None
    if weights != "imagenet":
        return read_weights(Path(weights))
    if recipe.imagenet is None:
        raise WeightsError(f"there are no published ImageNet weights of {name}. {ADVICE}")
    return recipe.imagenet()


def _is_own(tensors: Tensors) -> bool:
    return all(name.startswith(("stem.", "stages.", "head.")) for name in tensors)


def _load_trunk(network: nn.Module, tensors: Tensors, recipe: Recipe, origin: str) -> None:
    """Load all but the classifier, whose random values are about to be dropped."""
    classifier = {k: v for k, v in network.state_dict().items() if k.startswith(recipe.classifier)}
    load_strictly(network, tensors | classifier, origin)
