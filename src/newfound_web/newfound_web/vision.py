# SPDX-License-Identifier: Apache-2.0
"""The built-in network: image features and ImageNet class names."""

from collections.abc import Sequence

import numpy as np
import torch

from newfound_core.classifier import imagenet_classifier


class Vision:
    """EfficientNet-Lite0 with the weights of ImageNet, on the CPU. Threads may share it."""

    def __init__(self) -> None:
        self._network = imagenet_classifier()

    def features(self, rgb: np.ndarray) -> np.ndarray:
        """uint8 [H, W, 3] to float32 [1280]."""
        with torch.inference_mode():
            return self._network.backbone(self._input(rgb))[0].numpy()

    def names(self, rgb: np.ndarray, count: int) -> Sequence[tuple[str, float]]:
        """The most probable class names with their probabilities, best first."""
        with torch.inference_mode():
            probability = self._network(self._input(rgb))[0].softmax(dim=0)
            best, classes = probability.topk(min(count, len(probability)))
        labels = self._network.labels
        return [(labels[c], p) for p, c in zip(best.tolist(), classes.tolist(), strict=True)]

    def _input(self, rgb: np.ndarray) -> torch.Tensor:
        return self._network.preprocessing(rgb)[None]
