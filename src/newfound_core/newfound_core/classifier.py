# SPDX-License-Identifier: Apache-2.0
"""Classifiers on a backbone: the one that is trained on the source and adapted by ONDA, and the
one of ImageNet that comes with the default backbone.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from newfound_core.backbones import Backbone, build_backbone
from newfound_core.backbones.efficientnet_lite import lite0_imagenet_weights
from newfound_core.errors import ConfigError
from newfound_core.onda.config import is_layer_choice
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_core.rejection import build_rejection


def check_confidence(value: float | None) -> float | None:
    """A `source_confidence`, if it is a mean probability or unknown."""
    if value is not None and not 0 < value <= 1:
        raise ConfigError(f"source_confidence must be in (0, 1], got {value}")
    return value


class Classifier(nn.Module):
    """Images [N, 3, H, W] to logits [N, classes].

    With `output_norm` the logits are batch-normalised too: the thesis normalises AlexNet after
    each of its fully connected layers, the last included. With a `rejection` there is one logit
    more, of "unknown". `adaptive_layers` are the normalisation layers that ONDA moves unless told
    otherwise, as `OndaConfig.layers`; `source_confidence` is the mean probability of the answer on
    held-out images of the source, by which ONDA judges whether to adapt.
    """

    def __init__(
        self,
        backbone: Backbone,
        classes: int,
        *,
        output_norm: bool = False,
        rejection: Mapping[str, Any] | None = None,
        adaptive_layers: str = "all",
        source_confidence: float | None = None,
    ) -> None:
        super().__init__()
        if classes < 1:
            raise ConfigError(f"a classifier needs at least one class, got {classes}")
        if adaptive_layers == "auto" or not is_layer_choice(adaptive_layers):
            raise ConfigError(f"adaptive_layers must be all or last:n, got {adaptive_layers!r}")
        self.adaptive_layers = adaptive_layers
        self.source_confidence = check_confidence(source_confidence)
        self.backbone = backbone
        self.output_norm = output_norm
        self.classifier = nn.Linear(backbone.feature_dim, classes)
        self.norm = nn.BatchNorm1d(classes) if output_norm else nn.Identity()
        self.rejection = build_rejection(backbone.feature_dim, classes, rejection)

    def forward(self, images: Tensor) -> Tensor:
        """The logits."""
        features = self.backbone(images)
        logits = self.norm(self.classifier(features))
        return logits if self.rejection is None else self.rejection(features, logits)


class ImageNetClassifier(nn.Module):
    """EfficientNet-Lite0 with its own classifier: image [N, 3, 224, 224] to logits [N, 1000]."""

    def __init__(self, backbone: Backbone, classifier: nn.Linear) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = classifier
        self.labels = imagenet_labels()
        self.preprocessing: Preprocessing = default_preprocessing(backbone.name)

    def forward(self, image: Tensor) -> Tensor:
        """The logits of the thousand classes, in the order of `labels`."""
        return self.classifier(self.backbone(image))


def imagenet_classifier() -> ImageNetClassifier:
    """The pretrained classifier, ready for evaluation."""
    weights = lite0_imagenet_weights()
    classifier = nn.Linear(1280, 1000)
    classifier.load_state_dict({k: weights[f"classifier.{k}"] for k in ("weight", "bias")})
    return ImageNetClassifier(build_backbone("efficientnet_lite0", "imagenet"), classifier).eval()


def imagenet_labels() -> tuple[str, ...]:
    """The thousand class names, as torchvision lists them; a few occur twice ("crane")."""
    from torchvision.models import ResNet18_Weights

    return tuple(ResNet18_Weights.IMAGENET1K_V1.meta["categories"])
