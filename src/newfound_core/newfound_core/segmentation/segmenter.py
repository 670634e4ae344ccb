# SPDX-License-Identifier: Apache-2.0
"""A segmentation checkpoint that takes camera images.

segmenter = Segmenter.load(folder, InferenceConfig(backend="onnx"))
found = segmenter.segment(rgb)                     # class and confidence of every pixel
"""

from collections.abc import Sequence
from os import PathLike
from typing import NamedTuple

import cv2
import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError
from newfound_core.inference import Inference, InferenceConfig, build_inference
from newfound_core.models import LoadedModel, load_model
from newfound_core.preprocessing import check_image
from newfound_core.segmentation import UNLABELLED
from newfound_core.segmentation.label_image import check_labels

METHOD = "segmentation"
_CANDIDATES = 3  # best classes of each place that may win between two places


class Segmentation(NamedTuple):
    """Class and confidence of every pixel of an image."""

    mask: np.ndarray  # uint8 [H, W], position in the labels; 255: rejected
    confidence: np.ndarray  # uint8 [H, W], 255 times the probability of the class


class Segmenter:
    """A network behind an inference back end; ONDA applies to `inference` as to a classifier's."""

    def __init__(
        self,
        loaded: LoadedModel,
        config: InferenceConfig | None = None,
        min_confidence: float | None = None,
    ) -> None:
        """`min_confidence` None: the checkpoint's own, 0 if it has none."""
        self.loaded = loaded
        self.labels = check_labels(loaded.labels)
        if min_confidence is None:
            min_confidence = loaded.metadata.thresholds.get("min_confidence", 0.0)
        self.min_confidence = min_confidence
        self.inference: Inference = build_inference(loaded, config)

    @classmethod
    def load(
        cls,
        directory: str | PathLike[str],
        config: InferenceConfig | None = None,
        *,
        device: str | torch.device = "cpu",
        min_confidence: float | None = None,
    ) -> "Segmenter":
        """Read a checkpoint of method `segmentation`."""
        return cls(load_model(directory, METHOD, device), config, min_confidence)

    @property
    def min_confidence(self) -> float:
        """Probability below which a pixel is rejected; may be set at any time."""
        return self._min_confidence

    @min_confidence.setter
    def min_confidence(self, value: float) -> None:
        if not 0 <= value <= 1:
            raise ConfigError(f"min_confidence must be in [0, 1], got {value}")
        self._min_confidence = value

    def segment(self, rgb: np.ndarray) -> Segmentation:
        """The mask of an image, uint8 [H, W, 3] RGB of any size, at the image's own size."""
        check_image(rgb)
        output = self.inference([rgb])
        size = (rgb.shape[1], rgb.shape[0])
        return decide(output.pixels[0].detach().cpu(), size, self.min_confidence)


def decide(pixels: Tensor, size: tuple[int, int], min_confidence: float = 0.0) -> Segmentation:
    """The best class at every pixel of an image of (width, height), from logits [classes, h, w].

    Log-probabilities are interpolated, which leaves the best class that of interpolated logits
    and never raises its probability. Only classes that are among the best somewhere are, so the
    cost follows what is seen and not what is known.
    """
    logs = pixels.float().log_softmax(0)
    best = logs.topk(min(_CANDIDATES, len(logs)), 0).indices
    mask: np.ndarray = np.zeros(size[::-1], np.uint8)
    highest: np.ndarray = np.full(size[::-1], -np.inf, np.float32)
    for number in best.unique().tolist():
        plane = cv2.resize(logs[number].numpy(), size, interpolation=cv2.INTER_LINEAR)
        mask[plane > highest] = number
        np.maximum(highest, plane, out=highest)
    probability = np.exp(highest)
    if min_confidence > 0:
        mask[probability < min_confidence] = UNLABELLED
    return Segmentation(mask, np.rint(255 * np.minimum(probability, 1)).astype(np.uint8))


def colours(labels: Sequence[str]) -> np.ndarray:
    """A colour [256, 3] for every value of a mask: black for background, white for rejected."""
    table = np.zeros((256, 3), np.uint8)
    hues = np.arange(256) * 0.381966 % 1  # golden ratio: neighbours differ
    hsv = np.stack([180 * hues, np.full(256, 170), np.full(256, 230)], 1).astype(np.uint8)
    table[1 : len(labels)] = cv2.cvtColor(hsv[None], cv2.COLOR_HSV2RGB)[0, 1 : len(labels)]
    table[UNLABELLED] = 255
    return table


def overlay(rgb: np.ndarray, mask: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """The image with its mask in colours over it; background stays as it is."""
    painted = colours(labels)[mask]
    mixed = cv2.addWeighted(rgb, 0.5, painted, 0.5, 0.0)
    return np.where((mask == 0)[..., None], rgb, mixed)
