# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from torchvision.ops import box_iou

from newfound_core.backbones import build_backbone
from newfound_core.detection.region_network import RegionConfig, RegionNetwork
from newfound_core.errors import ConfigError

CONFIG = RegionConfig(channels=16, strides=(1, 2, 4), anchor_sizes=(8.0, 16.0, 32.0), count=20)


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


def test_the_pyramid_has_one_map_for_each_stride(network):
    maps = network.features(torch.randn(1, 3, 48, 48))
    assert [tuple(m.shape[1:]) for m in maps.values()] == [
        (16, 48, 48),
        (16, 24, 24),
        (16, 12, 12),
    ]


def test_it_learns_where_things_are(network):
    images = torch.zeros(2, 3, 48, 48)
    boxes = [torch.tensor([[8.0, 8, 24, 24]]), torch.tensor([[20.0, 24, 36, 40]])]
    for image, ((left, top, right, bottom),) in zip(images, boxes, strict=True):
        image[:, int(top) : int(bottom), int(left) : int(right)] = 1
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    network.train()
    for _ in range(30):
        optimizer.zero_grad()
        sum(network.losses(images, boxes).values()).backward()
        optimizer.step()
    for (found, _), truth in zip(network.train()(images), boxes, strict=True):
        assert box_iou(found[:1], truth)[0, 0] > 0.6


def test_a_stride_that_the_backbone_does_not_have_is_refused():
    with pytest.raises(ConfigError, match="no map of stride 8"):
        RegionNetwork(build_backbone("cifar_resnet20", width=0.25))
    with pytest.raises(ConfigError, match="one anchor size"):
        RegionConfig(anchor_sizes=(1.0,))
