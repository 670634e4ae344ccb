# SPDX-License-Identifier: Apache-2.0
"""The ImageNet classifier that comes with the default backbone: a thousand names, no network."""

from torch import Tensor, nn

from newfound_core.backbones import Backbone, build_backbone
from newfound_core.backbones.efficientnet_lite import lite0_imagenet_weights
from newfound_core.preprocessing import Preprocessing, default_preprocessing


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
