# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.backbones import build_backbone
from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.models import load_model, save_model
from newfound_core.segmentation.network import (
    SegmentationConfig,
    SegmentationNetwork,
    dilate,
    summary,
)

from .conftest import LABELS, PREPROCESSING


@pytest.fixture(scope="module")
def default_network():
    torch.manual_seed(0)
    return SegmentationNetwork(build_backbone(stages=7), 5).eval()


def test_the_default_network_is_small_and_has_logits_at_stride_8(default_network):
    parameters = sum(p.numel() for p in default_network.parameters())
    assert parameters == pytest.approx(3.07e6, rel=0.01)
    with torch.no_grad():
        found = default_network(torch.zeros(1, 3, 96, 64))
    assert found.pixels.shape == (1, 5, 12, 8)
    assert found.logits.shape == (1, 5)


def test_later_stages_are_dilated_instead_of_strided(default_network):
    last = [m for m in default_network.backbone.stages[5:].modules() if isinstance(m, nn.Conv2d)]
    assert all(layer.stride == (1, 1) for layer in last)
    wide = [layer for layer in last if layer.kernel_size != (1, 1)]
    assert [layer.dilation[0] for layer in wide] == [1, 2, 2, 2, 2]
    assert [layer.padding[0] for layer in wide] == [2, 4, 4, 4, 2]


def test_dilation_computes_every_other_place_as_the_strided_network_does():
    torch.manual_seed(0)
    plain, dilated = build_backbone("resnet10").eval(), build_backbone("resnet10").eval()
    dilated.load_state_dict(plain.state_dict())
    dilate(dilated, 16)
    images = torch.randn(1, 3, 128, 128)
    with torch.no_grad():
        coarse, fine = plain.feature_map(images), dilated.feature_map(images)
    assert fine.shape[-1] == 2 * coarse.shape[-1]
    assert fine[..., ::2, ::2].allclose(coarse, atol=1e-4)


def test_two_halves_make_the_whole(tiny_network):
    images = torch.randn(2, 3, 32, 32)
    whole = tiny_network(images).pixels
    for parts in range(5):
        maps = tiny_network.begin(images, parts)
        assert tiny_network.finish(maps, parts).allclose(whole, atol=1e-6), parts


def test_the_summary_is_the_confidence_of_the_pixels_and_the_class_that_prevails():
    pixels = torch.zeros(1, 3, 1, 4, dtype=torch.float64)
    pixels[0, 1, 0, :3] = 2.0
    pixels[0, 2, 0, 3] = 1.0
    q = pixels.softmax(1).numpy()[0, :, 0]
    certain, shares = q.max(0).mean(), q.mean(1)
    found = summary(pixels).exp().numpy()[0]
    rest = (1 - certain) / (1 - shares[1])
    assert found == pytest.approx([shares[0] * rest, certain, shares[2] * rest])
    assert found.sum() == pytest.approx(1)


def test_a_checkpoint_is_read_back_as_it_was(tiny_network, tmp_path):
    save_model(tmp_path / "c", tiny_network, LABELS, PREPROCESSING)
    loaded = load_model(tmp_path / "c", "segmentation")
    assert loaded.model.config == tiny_network.config
    images = torch.randn(1, 3, 32, 32)
    assert loaded.model(images).pixels.equal(tiny_network(images).pixels)


def test_a_checkpoint_whose_first_label_is_not_the_background_is_refused(tiny_network, tmp_path):
    save_model(tmp_path / "c", tiny_network, ["a", "b", "c", "d"], PREPROCESSING)
    with pytest.raises(CheckpointError, match="first label must be 'background'"):
        load_model(tmp_path / "c")


def test_a_checkpoint_with_too_few_labels_is_not_written(tiny_network, tmp_path):
    with pytest.raises(CheckpointError, match="lists 2 labels"):
        save_model(tmp_path / "c", tiny_network, LABELS[:2], PREPROCESSING)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "other"}, "head must be one of"),
        ({"low_stride": 5}, "no map of stride 5"),
        ({"output_stride": 0}, "must be positive"),
        ({"steps": (0,)}, "numbers of classes"),
        ({"adaptive_layers": "auto"}, "adaptive_layers"),
        ({"source_confidence": 2.0}, "source_confidence"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    backbone = build_backbone("cifar_resnet20", width=0.25)

    def build():
        return SegmentationNetwork(backbone, 2, SegmentationConfig(**{"low_stride": 2} | options))

    with pytest.raises(ConfigError, match=message):
        build()


def test_the_head_of_deeplab_builds_and_trains_with_one_picture():
    backbone = build_backbone("cifar_resnet20", width=0.25)
    network = SegmentationNetwork(backbone, 3, SegmentationConfig(head="aspp", width=16))
    found = network.train()(torch.randn(1, 3, 64, 64))
    found.pixels.sum().backward()
    assert np.isfinite(network.classifier.weight.grad.numpy()).all()
