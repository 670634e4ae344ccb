# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.detection.region_network import RegionConfig, RegionNetwork
from newfound_core.detection.region_proposer import load_region_proposer
from newfound_core.errors import CheckpointError, WeightsError
from newfound_core.models import save_model
from newfound_core.preprocessing import Preprocessing

RGB = np.random.default_rng(0).integers(0, 255, (60, 96, 3)).astype(np.uint8)


@pytest.fixture
def backbone():
    torch.manual_seed(0)
    return build_backbone("cifar_resnet20", width=0.25)


def check(found):
    assert len(found) > 0
    assert ((found.boxes >= 0) & (found.boxes <= [96, 60, 96, 60])).all()
    assert ((found.objectness >= 0) & (found.objectness <= 1)).all()
    assert found.boxes.dtype == found.objectness.dtype == np.float32


def test_a_checkpoint_proposes_as_the_network_it_was_made_of(backbone, tmp_path):
    network = RegionNetwork(backbone, RegionConfig(8, (2, 4), layers=1, hidden=16)).eval()
    preprocessing = Preprocessing(32)
    save_model(tmp_path / "regions", network, ["object"], preprocessing)
    proposer = load_region_proposer(str(tmp_path / "regions"))
    assert proposer.min_objectness == 0.5
    found = proposer.propose(RGB, None)
    check(found)
    with torch.inference_mode():
        boxes, _ = network(preprocessing(RGB)[None])[0]
    expected = boxes.numpy() * [3.0, 60 / 32, 3.0, 60 / 32]
    np.testing.assert_allclose(found.boxes[0], expected[0], rtol=1e-4, atol=1e-3)


def test_half_precision_on_disk_proposes_nearly_the_same(backbone, tmp_path):
    network = RegionNetwork(backbone, RegionConfig(8, (2, 4), layers=1, hidden=16)).eval()
    thresholds = {"min_objectness": 0.25}
    for half in (False, True):
        save_model(tmp_path / f"{half}", network, ["object"], Preprocessing(32),
                   thresholds=thresholds, half=half)  # fmt: skip
    sizes = [(tmp_path / f / "model.safetensors").stat().st_size for f in ("False", "True")]
    assert sizes[1] < 0.7 * sizes[0]
    whole, half = (load_region_proposer(str(tmp_path / f)) for f in ("False", "True"))
    assert half.min_objectness == 0.25
    found, expected = half.propose(RGB, None), whole.propose(RGB, None)
    np.testing.assert_allclose(found.objectness[:5], expected.objectness[:5], atol=0.01)


def test_a_checkpoint_of_another_method_is_refused(backbone, tmp_path):
    save_model(tmp_path / "source", Classifier(backbone, 1), ["red"], Preprocessing(16))
    with pytest.raises(CheckpointError, match="'source'"):
        load_region_proposer(str(tmp_path / "source"))


def test_weights_of_torchvision_are_read_from_a_file(tmp_path):
    torch.manual_seed(0)
    network = fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None)
    save_file(network.state_dict(), tmp_path / "coco.safetensors")
    check(load_region_proposer(str(tmp_path / "coco.safetensors")).propose(RGB, None))
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(WeightsError):
        load_region_proposer(str(tmp_path / "other.safetensors"))
