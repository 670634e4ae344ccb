# SPDX-License-Identifier: Apache-2.0
"""The network of each method, and its trained rest behind frozen stages.

Where the outputs of the frozen stages are cached, training sees only the rest of the network,
which takes a fraction of the time. What the rest needs of an image is one row: the feature map
from which the domain branch leaves, thinned out as the branch does itself, and the feature map
behind the last frozen stage.

    row = [ early map | last frozen map ]
"""

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn

from newfound_core.backbones import Backbone
from newfound_core.domain_branch import DomainBranch
from newfound_core.errors import ConfigError
from newfound_core.frozen_features import frozen_parts
from newfound_core.places import (
    BsfClassifier,
    BsfConfig,
    PlaceClassifier,
    WbnClassifier,
    WbnConfig,
)
from newfound_training.places.options import PlacesOptions
from newfound_training.running.training import pretrained_backbone


def build_place_model(options: PlacesOptions, places: int, sources: int) -> PlaceClassifier:
    """The classifier of a method for a number of places and source domains."""
    backbone = pretrained_backbone(options)
    if options.method == "bn":
        return PlaceClassifier(backbone, places)
    if options.method == "bsf":
        return BsfClassifier(backbone, places, sources, BsfConfig())
    latent = options.method == "wbn-latent"
    domains = (options.latent_domains or sources) if latent else sources
    return WbnClassifier(backbone, places, domains, WbnConfig(latent=latent))


def domain_names(options: PlacesOptions, model: PlaceClassifier, sources: tuple[str, ...]) -> list:
    """Names of the model's domains in the checkpoint; latent ones are numbered."""
    if options.method == "bn":
        return []
    if isinstance(model, WbnClassifier) and options.method == "wbn-latent":
        return [f"latent_{number}" for number in range(model.domains)]
    return list(sources)


Shape = tuple[int, ...]


class FrozenPart(nn.Module):
    """Images to rows, with the statistics of pretraining."""

    def __init__(
        self, backbone: Backbone, frozen: int, reduction: int = WbnConfig.branch_reduction
    ) -> None:
        super().__init__()
        if frozen < 1 + backbone.branch_point:
            raise ConfigError(
                f"frozen_stages is {frozen}, but the domain branch of {backbone.name} leaves "
                f"behind part {1 + backbone.branch_point}: freeze at least as many, or give "
                "--remembered-variants 0"
            )
        self.parts = nn.ModuleList(frozen_parts(backbone, frozen))
        self.branch_point = backbone.branch_point
        self.reduction = 1 if backbone.branch_point else reduction  # as the branch itself
        self.eval()

    @torch.no_grad()
    def feature_maps(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The early map and the last one."""
        x, early = images, images
        for number, part in enumerate(self.parts):
            x = part(x)
            if number == self.branch_point:
                early = x[:, :, :: self.reduction, :: self.reduction]
        return early, x

    def forward(self, images: Tensor) -> Tensor:
        """The rows, [N, values]."""
        return torch.cat([m.flatten(1) for m in self.feature_maps(images)], 1)

    def shapes(self, size: int) -> tuple[Shape, Shape]:
        """Return the shapes of the two feature maps of one image."""
        early, last = self.feature_maps(torch.zeros(1, 3, size, size))
        return tuple(early.shape[1:]), tuple(last.shape[1:])


class ShortBackbone(Backbone):
    """The trained rest of a backbone, from rows to features."""

    def __init__(self, whole: Backbone, frozen: int, shapes: tuple[Shape, Shape]) -> None:
        stages = OrderedDict(list(whole.stages.named_children())[frozen - 1 :])
        super().__init__(
            nn.Identity(),
            stages,
            whole.head,
            stem_channels=whole.stem_channels,
            feature_dim=whole.feature_dim,
        )
        self.shapes = shapes

    def forward(self, rows: Tensor) -> Tensor:
        """Features of the images behind the rows."""
        return self.from_early(rows)

    def early_features(self, rows: Tensor) -> Tensor:
        """The rows themselves: branch and rest each take their part of them."""
        return rows

    def from_early(self, early: Tensor) -> Tensor:
        """Continue behind the last frozen stage."""
        return self.head(self.stages(unpack(early, self.shapes)[1]))


class ShortBranch(nn.Module):
    """The domain branch, from rows to domain logits."""

    def __init__(self, branch: DomainBranch, shapes: tuple[Shape, Shape]) -> None:
        super().__init__()
        self.block, self.linear = branch.block, branch.linear
        self.shapes = shapes

    def forward(self, rows: Tensor) -> Tensor:
        """Domain logits; the early map has been thinned out already."""
        return self.linear(self.block(unpack(rows, self.shapes)[0]).mean((2, 3)))


def unpack(rows: Tensor, shapes: tuple[Shape, Shape]) -> tuple[Tensor, Tensor]:
    """Return the two feature maps in each row."""
    first, second = rows.split([math.prod(shape) for shape in shapes], 1)
    early, last = first.unflatten(1, shapes[0]), second.unflatten(1, shapes[1])
    return early, last.contiguous(memory_format=torch.channels_last)


class Shortened:
    """A model that takes rows, and the way back to one that takes images."""

    def __init__(self, model: PlaceClassifier, frozen: int, shapes: tuple[Shape, Shape]) -> None:
        self.model = model
        self._backbone, self._branch = model.backbone, getattr(model, "branch", None)
        model.backbone = ShortBackbone(model.backbone, frozen, shapes)
        if isinstance(self._branch, DomainBranch):
            model.branch = ShortBranch(self._branch, shapes)

    def whole(self) -> PlaceClassifier:
        """The same model for images again; all trained layers are shared."""
        self.model.backbone = self._backbone
        if self._branch is not None:
            self.model.branch = self._branch
        return self.model
