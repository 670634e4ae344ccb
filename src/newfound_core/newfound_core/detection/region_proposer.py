# SPDX-License-Identifier: Apache-2.0
"""Proposers that are networks: ours from a checkpoint, or torchvision's with a user's weights."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torchvision.models.detection import FasterRCNN, fasterrcnn_mobilenet_v3_large_320_fpn
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.rpn import RegionProposalNetwork, concat_box_prediction_layers

from newfound_core.backbones.contract import Tensors
from newfound_core.backbones.weights import load_strictly, read_weights
from newfound_core.detection.boxes import areas, clipped
from newfound_core.detection.proposals import Proposals
from newfound_core.models import LoadedModel, check_device, load_model
from newfound_core.preprocessing import check_image

METHOD = "regions"
_COUNTER = ".num_batches_tracked"
_MIN_OBJECTNESS = 0.5  # of a checkpoint that does not say


class RegionProposer:
    """Proposals of a `RegionNetwork`."""

    needs_depth = False

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        thresholds = loaded.metadata.thresholds
        self.min_objectness = thresholds.get("min_objectness", _MIN_OBJECTNESS)

    @torch.inference_mode()
    def propose(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """Boxes in pixels of the image, whatever size the network works at."""
        height, width = rgb.shape[:2]
        images = self._loaded.prepare([rgb])
        boxes, objectness = self._loaded.model(images)[0]
        scale = torch.tensor([width, height, width, height]) / images.shape[-1]
        return _proposals(boxes.cpu() * scale, objectness.cpu(), width, height)


class TorchvisionProposer:
    """Proposals of torchvision's Faster R-CNN (MobileNetV3-Large 320 FPN), trained on COCO.

    Only its first stage is used: the second one knows 80 classes, and would miss what it does
    not know.
    """

    needs_depth = False
    min_objectness = _MIN_OBJECTNESS

    def __init__(self, weights: Path, device: str = "cpu") -> None:
        self._device = check_device(device)
        network = faster_rcnn(read_weights(weights), str(weights))
        self._network = network.eval().to(self._device)

    @torch.inference_mode()
    def propose(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """Boxes in pixels of the image."""
        height, width = check_image(rgb).shape[:2]
        pixels = torch.from_numpy(np.ascontiguousarray(rgb)).to(self._device)
        image = pixels.permute(2, 0, 1).float() / 255
        network = self._network
        listed, _ = network.transform([image])
        maps = network.backbone(listed.tensors)
        boxes, objectness = scored_proposals(network.rpn, listed, maps)[0]
        inner_height, inner_width = listed.image_sizes[0]
        scale = torch.tensor([width / inner_width, height / inner_height] * 2)
        return _proposals(boxes.cpu() * scale, objectness.cpu(), width, height)


def faster_rcnn(tensors: Tensors, origin: str) -> FasterRCNN:
    """The network of torchvision's published weights; a WeightsError if these are others.

    It was trained with frozen batch normalisation, whose file has no counters of batches.
    """
    network = fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None)
    counters = {k: v for k, v in network.state_dict().items() if k.endswith(_COUNTER)}
    load_strictly(network, counters | tensors, origin)
    return network


def scored_proposals(
    network: RegionProposalNetwork, images: ImageList, maps: Mapping[str, Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """What torchvision's network proposes for each image, with the scores that it keeps back."""
    features = list(maps.values())
    objectness, deltas = network.head(features)
    anchors = network.anchor_generator(images, features)
    counts = [score[0].numel() for score in objectness]
    objectness, deltas = concat_box_prediction_layers(objectness, deltas)
    boxes = network.box_coder.decode(deltas, anchors).view(len(anchors), -1, 4)
    found, scores = network.filter_proposals(boxes, objectness, images.image_sizes, counts)
    return list(zip(found, scores, strict=True))


def load_region_proposer(where: str, device: str = "cpu") -> RegionProposer | TorchvisionProposer:
    """From a checkpoint's folder, or from a file with torchvision's weights."""
    if Path(where).is_file():
        return TorchvisionProposer(Path(where), device)
    return RegionProposer(load_model(where, METHOD, device))


def _proposals(
    boxes: torch.Tensor, objectness: torch.Tensor, width: int, height: int
) -> Proposals:
    inside = clipped(boxes.numpy().astype(np.float32), width, height)
    kept = areas(inside) > 0
    return Proposals(inside[kept], objectness.numpy().astype(np.float32)[kept])
