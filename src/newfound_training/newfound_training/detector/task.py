# SPDX-License-Identifier: Apache-2.0
"""Training a region network: batches with boxes, its losses, and the recall of objects."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.augmentation import Augmentation
from newfound_core.backbones import build_backbone
from newfound_core.detection.boxes import iou
from newfound_core.detection.region_network import RegionConfig, RegionNetwork
from newfound_core.errors import ConfigError, DataError
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_training.data.batches import Shuffled, image_generator, share_of
from newfound_training.detector.coco import Picture
from newfound_training.detector.options import DetectorOptions
from newfound_training.running.run import Run
from newfound_training.running.training import Task


class Batch(NamedTuple):
    """Images and where their objects are."""

    images: Tensor  # [N, 3, H, W]
    boxes: list[Tensor]  # [objects, 4] each


class DetectorTask(Task):
    """Objectness and boxes; recall on the pictures that are held out."""

    def __init__(self, pictures: Sequence[Picture], options: DetectorOptions, run: Run) -> None:
        torch.manual_seed(run.seed)
        self._run = run
        self.preprocessing = default_preprocessing(options.backbone, options.image_size)
        jitter = options.colour_jitter
        self._colours = Augmentation(brightness=jitter, contrast=jitter, saturation=jitter)
        order = np.random.default_rng([run.seed, 5]).permutation(len(pictures))
        held_out = round(options.validation_share * len(pictures))
        self.validation_set = [pictures[i] for i in order[:held_out]]
        self.training_set = [pictures[i] for i in order[held_out:]]
        if not self.training_set:
            raise DataError("no pictures are left to train on")
        self._order = Shuffled(len(self.training_set), options.batch_size, run.seed)
        self.model: RegionNetwork = build_network(options).to(run.device)

    def batch(self, step: int) -> Batch:
        """Random variants of this process's share of the step's pictures."""
        places = np.arange(self._order.batch_size)
        places = share_of(places, self._run.team.rank, self._run.team.processes)
        indices = self._order(step)[places]
        variants = [
            self._variant(self.training_set[int(index)], step, int(place))
            for index, place in zip(indices, places, strict=True)
        ]
        return Batch(torch.stack([image for image, _ in variants]), [b for _, b in variants])

    def _variant(self, picture: Picture, step: int, place: int) -> tuple[Tensor, Tensor]:
        """The whole picture in other colours, maybe mirrored together with its boxes."""
        generator = image_generator(self._run.seed, step, place)
        pixels = read_rgb(picture)
        size = self.preprocessing.size
        boxes = scaled(picture.boxes, pixels, size)
        image = self.preprocessing.resized(pixels)
        if generator.random() < 0.5:
            image = np.ascontiguousarray(image[:, ::-1])
            boxes[:, [0, 2]] = size - boxes[:, [2, 0]]
        image = self._colours.jitter(image, generator)
        return self.preprocessing.normalise(image), torch.from_numpy(boxes)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The two losses of a region proposal network."""
        device = self._run.device
        losses = self.model.losses(
            batch.images.to(device), [boxes.to(device) for boxes in batch.boxes]
        )
        return {
            "objectness": losses["loss_objectness"],
            "boxes": losses["loss_rpn_box_reg"],
        }

    def evaluate(self) -> dict[str, float]:
        """Share of the held-out objects that one of the best proposals covers at IoU 0.5."""
        if not self.validation_set:
            return {}
        return recalls(self.model, self.validation_set, self.preprocessing, self._run.device)


@torch.inference_mode()
def recalls(
    model: nn.Module,
    pictures: Sequence[Picture],
    preprocessing: Preprocessing,
    device: torch.device,
) -> dict[str, float]:
    """Recall of objects by the ten and by the hundred best proposals."""
    found: dict[int, list[bool]] = {10: [], 100: []}
    for picture in pictures:
        pixels = read_rgb(picture)
        image = preprocessing(pixels)
        boxes, _ = model(image[None].to(device))[0]
        truth = scaled(picture.boxes, pixels, image.shape[-1])
        for count, hits in found.items():
            overlap = iou(truth, boxes[:count].cpu().numpy())
            hits.extend((overlap.max(1, initial=0) >= 0.5).tolist())
    return {f"recall_{count}": float(np.mean(hits or [False])) for count, hits in found.items()}


def build_network(options: DetectorOptions) -> RegionNetwork:
    """The network with pretrained weights; those of its first stages will not change."""
    weights = None if options.weights == "random" else options.weights
    backbone = build_backbone(options.backbone, weights, options.stages or None)
    parts: list[nn.Module] = [backbone.stem, *backbone.stages]
    if options.frozen_stages > len(parts):
        raise ConfigError(
            f"{options.backbone} has {len(parts)} parts, {options.frozen_stages} cannot be frozen"
        )
    for part in parts[: options.frozen_stages]:
        part.requires_grad_(False)
    config = RegionConfig(options.channels, options.strides, options.anchor_sizes)
    return RegionNetwork(backbone, config)


def read_rgb(picture: Picture) -> np.ndarray:
    """The pixels of a picture."""
    pixels = cv2.imread(str(picture.path), cv2.IMREAD_COLOR)
    if pixels is None:
        raise DataError(f"{picture.path} cannot be decoded: remove it, or render it again")
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


def scaled(boxes: np.ndarray, pixels: np.ndarray, size: int) -> np.ndarray:
    """Boxes of a picture in the square that it is squeezed into."""
    height, width = pixels.shape[:2]
    return boxes * np.array([size / width, size / height] * 2, np.float32)
