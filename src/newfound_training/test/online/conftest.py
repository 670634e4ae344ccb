# SPDX-License-Identifier: Apache-2.0
"""A small network, a stream for it, and what `evaluate_online` makes of the two."""

from pathlib import Path

import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.models import LoadedModel, load_model, save_model
from newfound_core.preprocessing import Preprocessing
from newfound_training.data import load_pixels, open_images
from newfound_training.online.streams import Target


@pytest.fixture(scope="session")
def small_model(tmp_path_factory) -> LoadedModel:
    torch.manual_seed(1)
    model = Classifier(build_backbone("cifar_resnet20"), 3)
    model.train()
    for _ in range(3):  # statistics that differ from mean 0, variance 1
        model(torch.randn(8, 3, 32, 32))
    folder = tmp_path_factory.mktemp("model") / "checkpoint"
    save_model(folder, model.eval(), ["blue", "green", "red"], Preprocessing(32))
    return load_model(folder)


@pytest.fixture
def target(small_model, tree, tmp_path: Path) -> Target:
    pixels = load_pixels(open_images(tree), 32).in_domain("dark")
    return Target("bright", "dark", small_model, pixels, tmp_path / "streams", seed=0)


@pytest.fixture
def everything(target) -> np.ndarray:
    return np.arange(len(target.pixels))
