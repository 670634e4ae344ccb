# SPDX-License-Identifier: Apache-2.0
import copy

import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.detection.detector import (
    Detector,
    DetectorConfig,
    embed_crops,
    label_crops,
    same_network,
)
from newfound_core.detection.proposals import Proposals
from newfound_core.knowledge.contents import read_knowledge
from newfound_core.models import save_model
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.preprocessing import Preprocessing

RGB = np.random.default_rng(0).integers(0, 255, (60, 96, 3)).astype(np.uint8)


class Fixed:
    """A proposer that always finds the same."""

    needs_depth = False
    min_objectness = 0.6

    def __init__(self, boxes, objectness):
        self.found = Proposals(
            np.array(boxes, np.float32).reshape(-1, 4), np.array(objectness, np.float32)
        )

    def propose(self, rgb, depth):
        return self.found


@pytest.fixture
def knowledge(tmp_path):
    """One class, whose mean is what the network makes of the image's left part."""
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25).eval()
    model = OpenWorldModel(backbone, build_head("ncm", backbone.feature_dim))
    model.head.extend(["left"])
    preprocessing = Preprocessing(16)
    with torch.no_grad():
        feature = model(preprocessing(RGB[0:40, 0:40])[None])
    model.head.means.update(feature, torch.tensor([0]))
    model.head.rejection_threshold = torch.tensor([0.5])
    return read_knowledge(save_model(tmp_path / "m", model, ["left"], preprocessing))


def detect(knowledge, boxes, objectness, **config):
    detector = Detector(Fixed(boxes, objectness), DetectorConfig(margin=0.0, **config))
    return detector.detect(RGB, None, knowledge)


def test_a_region_like_its_class_is_named_and_another_is_unknown(knowledge):
    known, unknown = detect(knowledge, [[0, 0, 40, 40], [50, 10, 90, 50]], [0.9, 0.8])
    assert (known.label, known.nearest_label, known.known) == ("left", "left", True)
    assert known.distance == pytest.approx(0, abs=0.02)
    assert (unknown.label, unknown.nearest_label, unknown.known) == ("", "left", False)
    assert unknown.distance > unknown.rejection_threshold == 0.5
    assert 0 <= unknown.score <= 1
    assert 0 <= known.score <= 1


def test_few_and_distinct_regions_are_looked_at_best_first(knowledge):
    boxes = [[0, 0, 40, 40], [1, 1, 41, 41], [50, 10, 90, 50], [10, 40, 20, 50]]
    found = detect(knowledge, boxes, [0.5, 0.9, 0.7, 0.2], min_objectness=0.3)
    assert [round(d.objectness, 1) for d in found] == [0.9, 0.7]
    found = detect(knowledge, boxes[:1] + boxes[2:], [0.5, 0.7, 0.2])
    assert [round(d.objectness, 1) for d in found] == [0.7], "the proposer's own threshold"
    assert len(detect(knowledge, boxes, [0.5, 0.9, 0.7, 0.2], max_regions=1)) == 1


def test_nothing_proposed_is_nothing_detected(knowledge):
    assert detect(knowledge, [], []) == []


def test_looks_have_length_one_and_are_those_of_the_detections(knowledge):
    (found,) = detect(knowledge, [[50, 10, 90, 50]], [0.9])
    (look,) = embed_crops(knowledge, [found.crop])
    assert np.linalg.norm(look) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(look, found.embedding, atol=1e-5)


def test_names_are_those_of_the_detections(knowledge):
    found = detect(knowledge, [[0, 0, 40, 40], [50, 10, 90, 50]], [0.9, 0.8])
    assert label_crops(knowledge, [d.crop for d in found]) == ["left", ""]


def test_another_class_is_the_same_network_and_another_weight_is_not(knowledge, tmp_path):
    model = copy.deepcopy(knowledge.model)
    preprocessing = knowledge.loaded.metadata.preprocessing
    model.head.extend(["right"])
    save_model(tmp_path / "class", model, ["left", "right"], preprocessing)
    assert same_network(knowledge, read_knowledge(tmp_path / "class"))
    with torch.no_grad():
        next(model.backbone.parameters()).add_(0.01)
    save_model(tmp_path / "weight", model, ["left", "right"], preprocessing)
    assert not same_network(knowledge, read_knowledge(tmp_path / "weight"))
