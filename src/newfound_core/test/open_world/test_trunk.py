# SPDX-License-Identifier: Apache-2.0
from collections import OrderedDict

import pytest
import torch
from torch import nn

from newfound_core.backbones import Backbone
from newfound_core.backbones.contract import global_pool
from newfound_core.errors import ConfigError
from newfound_core.open_world.trunk import set_trainable, split, train_mode


def block(channels=4):
    return nn.Sequential(nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels), nn.Dropout())


@pytest.fixture
def backbone():
    stages = OrderedDict(one=block(), two=block())
    return Backbone(nn.Conv2d(3, 4, 3), stages, global_pool(), stem_channels=4, feature_dim=4)


def test_only_the_named_parts_train_and_the_others_keep_their_statistics(backbone):
    parameters = set_trainable(backbone, ["stages.two"])
    train_mode(backbone, ["stages.two"])
    assert {id(p) for p in parameters} == {id(p) for p in backbone.stages.two.parameters()}
    assert all(module.training for module in backbone.stages.two)
    assert not any(module.training for module in backbone.stages.one)
    assert not backbone.stem.training


def test_none_means_everything_and_nothing_means_nothing(backbone):
    assert len(set_trainable(backbone, None)) == len(list(backbone.parameters()))
    train_mode(backbone, None)
    assert backbone.stages.one[1].training
    assert set_trainable(backbone, ()) == []


def test_a_part_that_is_not_there_is_named(backbone):
    with pytest.raises(ConfigError, match="no part named 'layer4'; its main parts are stem"):
        set_trainable(backbone, ["layer4"])


@pytest.mark.parametrize(
    ("parts", "trunk_length"), [(None, 0), (["stages.two"], 2), (["stem"], 0), ((), 4)]
)
def test_trunk_and_rest_together_are_the_network(backbone, parts, trunk_length):
    set_trainable(backbone, parts)
    backbone.eval()
    trunk, rest = split(backbone)
    assert len(trunk) == trunk_length
    images = torch.randn(2, 3, 6, 6)
    assert torch.equal(rest(trunk(images)), backbone(images))


def test_any_other_network_is_all_trunk_or_all_rest():
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    set_trainable(network, ["1"])
    assert [len(part) for part in split(network)] == [0, 1]
    set_trainable(network, ())
    assert [len(part) for part in split(network)] == [1, 0]


def test_statistics_can_be_kept_while_the_rest_trains(backbone):
    train_mode(backbone, ["stages.two"], batch_statistics=False)
    convolution, normalisation, dropout = backbone.stages.two
    assert not normalisation.training
    assert convolution.training
    assert dropout.training
