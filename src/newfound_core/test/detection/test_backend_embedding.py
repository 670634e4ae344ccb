# SPDX-License-Identifier: Apache-2.0
"""Every back end gives the features that PyTorch gives."""

import copy

import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.detection.backend_embedding import BackendEmbedder
from newfound_core.detection.crops import crop_features
from newfound_core.inference import InferenceConfig
from newfound_core.models import load_model
from newfound_core.onnx_runtime import MAX_BATCH
from newfound_core.testing import tiny_open_world


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load_model(tiny_open_world(tmp_path_factory.mktemp("shipped") / "model"))


def crops(count):
    random = np.random.default_rng(count)
    return [
        random.integers(0, 255, (*random.integers(20, 90, 2), 3), dtype=np.uint8)
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    "config",
    [
        InferenceConfig(),
        InferenceConfig(channels_last=True),
        InferenceConfig("onnx", threads=1),
        InferenceConfig("onnx", threads=3),
        pytest.param(InferenceConfig("compile"), marks=pytest.mark.slow),
    ],
)
def test_features_are_those_of_the_network_for_any_number_of_crops(loaded, config):
    if config.backend == "compile":  # which takes seconds for each layer
        loaded = copy.deepcopy(loaded)
        loaded.model.backbone = build_backbone("cifar_resnet8", width=0.25).eval()
    embedder = BackendEmbedder(loaded, config)
    for count in (1, 4, 0, 5, MAX_BATCH + 1):
        expected = crop_features(loaded, crops(count))
        found = embedder(crops(count))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert torch.equal(embedder.stored(crops(count)), found)
