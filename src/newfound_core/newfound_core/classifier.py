# SPDX-License-Identifier: Apache-2.0
"""A backbone and a linear classifier: what is trained on the source, and adapted by ONDA."""

from torch import Tensor, nn

from newfound_core.backbones import Backbone
from newfound_core.errors import ConfigError


class Classifier(nn.Module):
    """Images [N, 3, H, W] to logits [N, classes].

    With `output_norm` the logits are batch-normalised too: the thesis normalises AlexNet after
    each of its fully connected layers, the last included.
    """

    def __init__(self, backbone: Backbone, classes: int, *, output_norm: bool = False) -> None:
        super().__init__()
        if classes < 1:
            raise ConfigError(f"a classifier needs at least one class, got {classes}")
        self.backbone = backbone
        self.output_norm = output_norm
        self.classifier = nn.Linear(backbone.feature_dim, classes)
        self.norm = nn.BatchNorm1d(classes) if output_norm else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """The logits."""
        return self.norm(self.classifier(self.backbone(images)))
