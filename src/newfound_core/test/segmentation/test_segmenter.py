# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
import torch
from torch.nn import functional

from newfound_core.errors import CheckpointError, ConfigError, DataError
from newfound_core.inference import InferenceConfig
from newfound_core.models import save_model
from newfound_core.onda import OndaConfig
from newfound_core.segmentation.segmenter import Segmenter, decide, overlay
from newfound_core.testing import tiny

from .conftest import LABELS, PREPROCESSING, scene


@pytest.fixture
def checkpoint(tiny_network, tmp_path):
    tiny_network.classifier.weight.data.mul_(20)  # so that classes differ
    return save_model(
        tmp_path / "c", tiny_network, LABELS, PREPROCESSING, thresholds={"min_confidence": 0.3}
    )


def test_the_class_of_a_pixel_is_that_of_interpolated_logits():
    torch.manual_seed(0)
    logits = 4 * torch.randn(6, 5, 7)
    found = decide(logits, (70, 50))
    large = functional.interpolate(logits[None], (50, 70), mode="bilinear")[0]
    assert (found.mask == large.argmax(0).numpy()).mean() > 0.995  # ties and rare third classes
    true = large.softmax(0).amax(0).numpy()
    assert (found.confidence <= 255 * true + 1).all()
    assert decide(logits, (7, 5)).confidence == pytest.approx(
        255 * logits.softmax(0).amax(0).numpy(), abs=1
    )


def test_pixels_below_the_confidence_are_rejected_and_still_say_how_sure_they_are():
    logits = torch.tensor([[[2.0, 0.1]], [[0.0, 0.0]]])
    found = decide(logits, (2, 1), 0.6)
    assert found.mask.tolist() == [[0, 255]]
    assert found.confidence[0, 1] == round(255 / (1 + np.exp(-0.1)))


@pytest.mark.parametrize("size", [(48, 64), (7, 5), (1, 1), (1500, 2000)])
def test_the_mask_has_the_size_of_the_image(checkpoint, size):
    segmenter = Segmenter.load(checkpoint)
    found = segmenter.segment(np.zeros((*size, 3), np.uint8))
    assert found.mask.shape == found.confidence.shape == size
    assert found.mask.dtype == found.confidence.dtype == np.uint8


def test_both_back_ends_give_the_same_mask(checkpoint):
    rgb, _ = scene(["red", "green"], 1)
    torch_mask = Segmenter.load(checkpoint).segment(rgb)
    onnx_mask = Segmenter.load(checkpoint, InferenceConfig("onnx")).segment(rgb)
    assert (torch_mask.mask == onnx_mask.mask).mean() > 0.999
    assert onnx_mask.confidence == pytest.approx(torch_mask.confidence, abs=1)


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_onda_adapts_it_as_it_adapts_a_classifier(checkpoint, backend):
    segmenter = Segmenter.load(checkpoint, InferenceConfig(backend, adapt=True))
    config = OndaConfig(
        frames_per_update=2, confidence_drop=0.0, estimator="streaming", balanced=False
    )
    onda = segmenter.inference.build_onda(config)
    segmenter.inference.serve(onda)
    dark = [(scene(["red"], seed)[0] // 4).astype(np.uint8) for seed in range(20)]
    before = segmenter.inference([dark[0]]).pixels.clone()
    for rgb in dark:
        segmenter.segment(rgb)
        if (update := onda.pending_update()) is not None:
            onda.apply(update.estimate())
    assert onda.status().updates > 1
    assert not segmenter.inference([dark[0]]).pixels.allclose(before, atol=1e-3)


def test_the_checkpoints_own_threshold_is_used_unless_another_is_given(checkpoint):
    assert Segmenter.load(checkpoint).min_confidence == 0.3
    assert Segmenter.load(checkpoint, min_confidence=0.0).min_confidence == 0.0
    with pytest.raises(ConfigError, match=r"\[0, 1\]"):
        Segmenter.load(checkpoint, min_confidence=1.5)


def test_a_checkpoint_of_another_method_and_a_bad_image_are_refused(checkpoint, tmp_path):
    with pytest.raises(CheckpointError, match="segmentation is needed"):
        Segmenter.load(tiny(tmp_path / "classifier"))
    with pytest.raises(DataError, match="uint8"):
        Segmenter.load(checkpoint).segment(np.zeros((4, 4), np.uint8))


def test_the_overlay_leaves_the_background_as_it_is():
    rgb = np.full((2, 2, 3), 100, np.uint8)
    found = overlay(rgb, np.array([[0, 1], [2, 255]], np.uint8), LABELS)
    assert (found[0, 0] == 100).all()
    assert len({tuple(found[y, x]) for y in (0, 1) for x in (0, 1)}) == 4
