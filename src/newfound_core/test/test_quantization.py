# SPDX-License-Identifier: Apache-2.0
"""8-bit networks answer as those they are made of, or are refused."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from newfound_core import quantization
from newfound_core.errors import ConfigError
from newfound_core.inference import InferenceConfig, build_inference
from newfound_core.models import load_model
from newfound_core.testing import tiny


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Three layers in place of a network: tracing takes seconds for each ten."""
    torch.manual_seed(3)
    layers = nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.AdaptiveAvgPool2d(1)
    model = nn.Sequential(*layers, nn.Flatten()).eval()
    return replace(load_model(tiny(tmp_path_factory.mktemp("model") / "tiny")), model=model)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """A folder of folders of images, one of them broken."""
    folder, random = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for number in range(24):
        place = folder / f"room_{number % 3}"
        place.mkdir(exist_ok=True)
        picture = cv2.resize(random.integers(0, 255, (6, 8, 3), dtype=np.uint8), (80, 60))
        cv2.imwrite(str(place / f"{number}.jpg"), picture)
    (folder / "broken.png").write_bytes(b"no image")
    return folder


def test_an_8_bit_network_gives_nearly_the_same_for_any_number_of_images(loaded, photographs):
    config = InferenceConfig("onnx", threads=1, int8_images=str(photographs))
    built = build_inference(loaded, config)
    batch = torch.from_numpy(
        np.concatenate(quantization.calibration_batches(loaded, photographs)[:3])
    )
    with torch.no_grad():
        expected = loaded.model(batch)
    found = built.run(batch)
    assert found.shape == expected.shape
    assert torch.nn.functional.cosine_similarity(found, expected).min() > 0.97
    assert not torch.allclose(found, expected, rtol=1e-5, atol=1e-6), "it is not 8-bit at all"


def test_a_network_that_quantization_breaks_is_refused(loaded, photographs, monkeypatch):
    monkeypatch.setattr(quantization, "LEAST_COSINE", 1.01)
    with pytest.raises(ConfigError, match="as 8-bit integers the model answers otherwise"):
        build_inference(loaded, InferenceConfig("onnx", int8_images=str(photographs)))


def test_too_few_images_are_refused(loaded, tmp_path):
    with pytest.raises(ConfigError, match=r"has 0 readable images .* at least 20"):
        build_inference(loaded, InferenceConfig("onnx", int8_images=str(tmp_path / "none")))
