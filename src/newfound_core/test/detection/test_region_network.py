# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
import torch
from torchvision.ops import box_iou

from newfound_core.backbones import build_backbone
from newfound_core.detection.region_losses import best_overlap
from newfound_core.detection.region_network import RegionConfig, RegionNetwork
from newfound_core.errors import ConfigError

CONFIG = RegionConfig(16, strides=(1, 2, 4), layers=1, refined=20, hidden=32, count=20)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return RegionNetwork(build_backbone("cifar_resnet20", width=0.25), CONFIG)


def test_boxes_lie_inside_the_image_best_first(network):
    results = network.eval()(torch.randn(2, 3, 48, 48))
    assert len(results) == 2
    for boxes, objectness in results:
        assert 0 < len(boxes) <= 20
        assert ((boxes >= 0) & (boxes <= 48)).all()
        assert torch.equal(objectness, objectness.sort(descending=True).values)
        assert ((objectness >= 0) & (objectness <= 1)).all()
        overlaps = box_iou(boxes, boxes).fill_diagonal_(0)
        assert (overlaps <= CONFIG.max_overlap).all()


def test_objectness_is_calibrated_by_slope_and_offset(network):
    image = torch.randn(1, 3, 48, 48)
    with torch.inference_mode():
        boxes, plain = network.eval()(image)[0]
        network.config = replace(network.config, slope=2.0, offset=-0.5)
        same, scaled = network(image)[0]
    assert torch.equal(boxes, same)
    torch.testing.assert_close(scaled, (2 * torch.logit(plain) - 0.5).sigmoid())


def test_the_pyramid_has_one_map_for_each_stride(network):
    maps = network.features(torch.randn(1, 3, 48, 48))
    assert [tuple(m.shape[1:]) for m in maps.values()] == [
        (16, 48, 48),
        (16, 24, 24),
        (16, 12, 12),
    ]


def test_background_counts_as_much_as_it_is_weighted(network):
    torch.manual_seed(0)
    network.train()
    images, nothing = torch.randn(1, 3, 48, 48), [torch.zeros(0, 4)]
    assert network.losses(images, nothing, 0.0)["quality"] == 0
    half, full = (network.losses(images, nothing, w)["quality"] for w in (0.5, 1.0))
    torch.testing.assert_close(2 * half, full)
    assert all(torch.isfinite(v) for v in network.losses(images, nothing, 0.0).values())


def test_training_leaves_the_statistics_of_the_backbone_alone(network):
    before = {k: v.clone() for k, v in network.backbone.state_dict().items()}
    network.train().losses(torch.randn(2, 3, 48, 48), [torch.zeros(0, 4)] * 2)
    after = network.backbone.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("refined", [20, 0])
def test_it_learns_where_things_are_and_how_well_its_boxes_fit(refined):
    torch.manual_seed(0)
    config = RegionConfig(16, strides=(1, 2, 4), layers=1, refined=refined, hidden=32, count=20)
    network = RegionNetwork(build_backbone("cifar_resnet20", width=0.25), config)
    images = torch.zeros(2, 3, 48, 48)
    boxes = [torch.tensor([[8.0, 8, 24, 24]]), torch.tensor([[20.0, 24, 36, 40]])]
    for image, ((left, top, right, bottom),) in zip(images, boxes, strict=True):
        image[:, int(top) : int(bottom), int(left) : int(right)] = 1
    steps = 120
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    network.train()
    for _ in range(steps):
        optimizer.zero_grad()
        sum(network.losses(images, boxes).values()).backward()
        optimizer.step()
        schedule.step()
    with torch.inference_mode():
        results = network.eval()(images)
    for (found, objectness), truth in zip(results, boxes, strict=True):
        overlap = best_overlap(found, truth)
        assert overlap[0] > 0.7
        assert objectness[0] == pytest.approx(float(overlap[0]), abs=0.3)


def test_what_the_backbone_or_the_parts_do_not_have_is_refused():
    with pytest.raises(ConfigError, match="no map of stride 8"):
        RegionNetwork(build_backbone("cifar_resnet20", width=0.25))
    for wrong in ({"channels": 12}, {"strides": ()}, {"layers": 0}, {"slope": 0.0}):
        with pytest.raises(ConfigError):
            RegionConfig(**wrong)
