# SPDX-License-Identifier: Apache-2.0
"""The one contract behind which every network sits.

A named network is made as the library makes it and then cut into a backbone; weights are loaded
between the two steps, while the tensors still have the names under which the library, and
everyone else, publishes them.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from newfound_core.errors import ConfigError


class Backbone(nn.Module):
    """A network without its classifier: image [N, 3, H, W] to feature vector [N, feature_dim].

        image ─► stem ─► stages ─► feature map ─► head ─► features

    `stem` is the first convolution (with its normalisation, activation and pooling), `stages`
    the named rest of the convolutional part, any last 1x1 convolution included, and `head`
    pools and flattens; AlexNet's head also holds its fully connected layers.

    The domain branch of WBN leaves the trunk early: after `stem` in every family but AlexNet,
    where it leaves from pool5, which is behind all stages. `early_features` and `from_early`
    cut the network at that point, so that the shared part is computed once:

        early = backbone.early_features(image)
        domain = branch(early)                     # [N, early_channels, h, w] to [N, domains]
        features = backbone.from_early(early)

    EfficientNet's and MobileNet's stems halve the image where a ResNet's quarters it: a branch
    of convolutions should pool such a large map first.

    Batch normalisation is always a plain `nn.BatchNorm1d` or `nn.BatchNorm2d` whose activation
    is a module of its own. timm fuses the two in `BatchNormAct2d`, a subclass of
    `nn.BatchNorm2d` that also applies the activation; replacing one by another normalisation
    would lose the activation, so those are split when the backbone is built. A converter may
    look for `isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))`, and must keep the layer's
    own `eps`, which is not the same everywhere (EfficientNet-Lite: 1e-3).
    """

    def __init__(
        self,
        stem: nn.Module,
        stages: "OrderedDict[str, nn.Module]",
        head: nn.Module,
        *,
        stem_channels: int,
        feature_dim: int,
        branch_point: int = 0,
        early_channels: int | None = None,
    ) -> None:
        super().__init__()
        self.stem = stem
        self.stages = nn.Sequential(stages)
        self.head = head
        self.stem_channels = stem_channels
        self.feature_dim = feature_dim
        self.branch_point = branch_point  # how many stages lie before the domain branch
        self.early_channels = stem_channels if early_channels is None else early_channels
        # Filled in by `build_backbone`: with these two it can be built again from a checkpoint.
        self.name = ""
        self.options: dict[str, Any] = {}

    def forward(self, image: Tensor) -> Tensor:
        """The feature vector, [N, feature_dim]."""
        return self.head(self.feature_map(image))

    def features(self, image: Tensor) -> Tensor:
        """The feature vector, [N, feature_dim]; the same as calling the backbone."""
        return self(image)

    def feature_map(self, image: Tensor) -> Tensor:
        """The last map before the head, [N, channels, h, w]."""
        return self.stages(self.stem(image))

    def early_features(self, image: Tensor) -> Tensor:
        """The map from which the domain branch leaves, [N, early_channels, h, w]."""
        x = self.stem(image)
        for stage in list(self.stages)[: self.branch_point]:
            x = stage(x)
        return x

    def from_early(self, early: Tensor) -> Tensor:
        """Continue where `early_features` stopped, to the feature vector."""
        for stage in list(self.stages)[self.branch_point :]:
            early = stage(early)
        return self.head(early)


def keep_stages(backbone: Backbone, count: int) -> Backbone:
    """The first stages alone, with pooled features; the modules are those of the backbone."""
    if not max(1, backbone.branch_point) <= count <= len(backbone.stages):
        raise ConfigError(
            f"stages must be between {max(1, backbone.branch_point)} and "
            f"{len(backbone.stages)} in this network, got {count}"
        )
    if any(True for _ in backbone.head.parameters()):
        raise ConfigError("a network with fully connected layers in its head cannot be cut")
    kept = OrderedDict(list(backbone.stages.named_children())[:count])
    last = [m for m in nn.Sequential(kept).modules() if isinstance(m, nn.Conv2d)][-1]
    return Backbone(
        backbone.stem,
        kept,
        global_pool(),
        stem_channels=backbone.stem_channels,
        feature_dim=last.out_channels,
        branch_point=backbone.branch_point,
        early_channels=backbone.early_channels,
    )


def global_pool() -> nn.Sequential:
    """The head of most networks: mean over the map, then flat."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1))


Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Recipe:
    """One network: how to create it, how to cut it, where its ImageNet weights are."""

    create: Callable[..., nn.Module]  # options as keyword arguments; random weights
    assemble: Callable[[nn.Module], Backbone]
    classifier: tuple[str, ...] = ()  # prefixes of tensors that belong to the dropped classifier
    imagenet: Callable[[], Tensors] | None = None
