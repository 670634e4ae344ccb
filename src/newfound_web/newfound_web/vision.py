# SPDX-License-Identifier: Apache-2.0
"""The networks: image features, ImageNet class names, names from a vocabulary."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import torch

from newfound_core.classifier import imagenet_classifier
from newfound_core.models import load_model
from newfound_core.naming import NameAnswer, NamingModel, read_names


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


class Namer:
    """A checkpoint of method `cumix` with the vocabulary that it answers from, on the CPU."""

    def __init__(self, checkpoint: Path, vocabulary: Path | None, min_span: float) -> None:
        self._loaded = load_model(checkpoint, "cumix")
        assert isinstance(self._loaded.model, NamingModel)
        self._model = self._loaded.model
        self._min_span = min_span
        own = self._model.own_vocabulary
        self.vocabulary = self._model.encode(read_names(vocabulary)) if vocabulary else own()

    def __call__(
        self, views: Sequence[np.ndarray], count: int, exclude: Collection[str]
    ) -> Sequence[NameAnswer]:
        """Rank names for views of one object, uint8 [H, W, 3] each."""
        with torch.inference_mode():
            features = self._model.backbone(self._loaded.prepare(views))
            return self._model.answer(features, self.vocabulary, count, exclude, self._min_span)
