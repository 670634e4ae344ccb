# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with random weights, for tests and benchmarks that need a model and no skill."""

from collections.abc import Sequence
from pathlib import Path

import torch

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.models import save_model
from newfound_core.places import BsfClassifier, PlaceClassifier, WbnClassifier
from newfound_core.preprocessing import Preprocessing, default_preprocessing

LABELS, DOMAINS = ("mug", "hammer", "banana"), ("townhouse", "loft")


def tiny(
    folder: Path, method: str = "source", *, seed: int = 1, labels: Sequence = LABELS
) -> Path:
    """A small network on 32 px: milliseconds a frame."""
    torch.manual_seed(seed)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    return save(folder, method, backbone, labels, Preprocessing(size=32))


def usual(folder: Path, method: str = "source") -> Path:
    """The default backbone at its usual size, with ImageNet weights and a random classifier."""
    name = "efficientnet_lite0"
    backbone = build_backbone(name, weights="imagenet")
    return save(folder, method, backbone, LABELS, default_preprocessing(name))


def save(folder: Path, method: str, backbone, labels: Sequence[str], preprocessing) -> Path:
    """A model of the method around the backbone, as a checkpoint."""
    domains = DOMAINS if method in ("wbn", "bsf") else ()
    count = len(labels)
    model = {
        "source": lambda: Classifier(backbone, count),
        "bn": lambda: PlaceClassifier(backbone, count),
        "wbn": lambda: WbnClassifier(backbone, count, len(domains)),
        "bsf": lambda: BsfClassifier(backbone, count, len(domains)),
    }[method]()
    return save_model(folder, model, labels, preprocessing, domains=domains)
