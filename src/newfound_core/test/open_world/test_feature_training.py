# SPDX-License-Identifier: Apache-2.0

from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.backbones import Backbone
from newfound_core.backbones.contract import global_pool
from newfound_core.errors import CheckpointError, ConfigError, TrainingError
from newfound_core.open_world.feature_training import (
    StepData,
    set_trainable,
    split,
    train_features,
    train_mode,
)
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.model import EmbeddingConfig, OpenWorldModel
from newfound_core.open_world.step_config import EpochState, Hooks, StepConfig
from newfound_core.optimization import ProcessGroup


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


CONFIG = StepConfig(epochs=4, batch_size=16, learning_rate=0.01, clip_gradient=5.0)


def ready(toy, method="bdoc"):
    model = toy.model(method)
    model.head.extend(toy.classes[:2])
    model.head.begin_step()
    new = toy.samples("cup") + toy.samples("fork")
    return model, StepData(new, [], toy.inputs, toy.classes[:2])


def staged_model():
    """A model of stages with batch normalisation and dropout, as real networks have."""
    torch.manual_seed(0)
    stages = OrderedDict(
        one=nn.Sequential(nn.Conv2d(6, 6, 1), nn.BatchNorm2d(6), nn.Tanh()),
        two=nn.Sequential(nn.Conv2d(6, 6, 1), nn.Dropout(0.2)),
    )
    backbone = Backbone(nn.Conv2d(3, 6, 1), stages, nn.Flatten(1), stem_channels=6, feature_dim=6)
    head = build_head("bdoc", 6)
    head.extend(["cup", "fork"])
    return OpenWorldModel(backbone, head, EmbeddingConfig(normalize=False))


def equal_state(one, other):
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_training_lowers_the_loss(toy):
    model, data = ready(toy)
    totals = []
    hooks = Hooks(on_epoch_end=lambda state: totals.append(state.losses["total"]))
    train_features(model, None, data, CONFIG, hooks=hooks)
    assert len(totals) == 4
    assert totals[-1] < totals[0]


def test_the_same_seed_gives_the_same_network_and_leaves_the_callers_randomness(toy):
    models = []
    for _ in range(2):
        model, data = staged_model(), ready(toy)[1]
        torch.manual_seed(7)
        train_features(model, None, data, CONFIG, hooks=Hooks())
        models.append(model)
        expected = torch.Generator().manual_seed(7)
        assert torch.rand(1).item() == torch.rand(1, generator=expected).item()
    assert equal_state(*models)


def test_processes_that_share_a_batch_draw_their_own_dropout(toy):
    models = []
    for rank in range(2):
        model, group = staged_model(), ProcessGroup()
        group.rank = rank
        train_features(model, None, ready(toy)[1], CONFIG, hooks=Hooks(), process_group=group)
        models.append(model)
    assert not equal_state(*models)


@pytest.mark.parametrize("stop_after", [1, 3])
def test_resuming_after_an_epoch_ends_where_going_on_would_have(toy, stop_after):
    whole, data = staged_model(), ready(toy)[1]
    states: list[EpochState] = []
    train_features(whole, None, data, CONFIG, hooks=Hooks(on_epoch_end=states.append))
    resumed = staged_model()
    train_features(resumed, None, data, CONFIG, hooks=Hooks(), resume=states[stop_after - 1])
    assert equal_state(whole, resumed)


def test_a_state_of_another_model_is_refused(toy):
    model, data = ready(toy)
    state = EpochState(1, {"model.other": torch.zeros(1)}, {})
    with pytest.raises(CheckpointError, match="of another step or model"):
        train_features(model, None, data, CONFIG, hooks=Hooks(), resume=state)


def test_frozen_stages_do_not_change_and_the_named_one_does(toy):
    model, data = staged_model(), ready(toy)[1]
    before = {key: value.clone() for key, value in model.backbone.state_dict().items()}
    config = StepConfig(epochs=2, batch_size=16, learning_rate=0.05, trainable=("stages.two",))
    train_features(model, None, data, config, hooks=Hooks())
    changed = {
        key for key, value in model.backbone.state_dict().items() if not value.equal(before[key])
    }
    assert changed == {"stages.two.0.weight", "stages.two.0.bias"}


def test_a_cached_trunk_gives_the_same_result_and_prepares_each_image_once(toy):
    prepared = []

    def counting(image):
        prepared.append(1)
        return toy.inputs.prepare(image)

    results = []
    for cache in (False, True):
        model, data = staged_model(), ready(toy)[1]
        prepared.clear()
        inputs = type(toy.inputs)(counting)
        data = StepData(data.new, [], inputs, data.labels)
        config = StepConfig(
            epochs=3,
            batch_size=16,
            learning_rate=0.05,
            trainable=("stages.two",),
            cache_trunk=cache,
        )
        train_features(model, None, data, config, hooks=Hooks())
        results.append((model, len(prepared)))
    (plain, plain_count), (cached, cached_count) = results
    assert (plain_count, cached_count) == (180, 60)
    for a, b in zip(plain.parameters(), cached.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_cache_beyond_its_limit_is_not_made(toy):
    prepared = []

    def counting(image):
        prepared.append(1)
        return toy.inputs.prepare(image)

    model, data = staged_model(), ready(toy)[1]
    data = StepData(data.new, [], type(toy.inputs)(counting), data.labels)
    config = StepConfig(
        epochs=2, batch_size=16, trainable=("stages.two",), cache_trunk=True, cache_limit_mb=0
    )
    train_features(model, None, data, config, hooks=Hooks())
    # Every image in every epoch, after one batch that showed how large the cache would be.
    assert len(prepared) == 2 * len(data.samples) + config.batch_size


@pytest.mark.parametrize("cache", [False, True])
def test_mixed_precision_is_for_the_networks_and_the_head_gets_float32(toy, cache):
    model, data = staged_model(), ready(toy)[1]
    old = staged_model().eval()
    computed, given = [], []
    for network in (model.backbone, old.backbone):
        network.stages.two[0].register_forward_hook(lambda *call: computed.append(call[2].dtype))
    loss = model.head.loss
    model.head.loss = lambda *batch: given.append((batch[0].dtype, batch[2].dtype)) or loss(*batch)
    config = StepConfig(
        epochs=1, trainable=("stages.two",), cache_trunk=cache, precision="bfloat16"
    )
    train_features(model, old, data, config, hooks=Hooks())
    assert set(computed) == {torch.bfloat16}
    assert set(given) == {(torch.float32, torch.float32)}
    assert {tensor.dtype for tensor in model.parameters()} == {torch.float32}


def test_distillation_holds_the_features_to_the_old_network(toy):
    moved = {}
    for weight in (0.0, 50.0):
        old, data = ready(toy)
        old.eval()
        model = toy.model("bdoc", distillation_weight=weight)
        model.head.extend(toy.classes[:2])
        train_features(model, old, data, CONFIG, hooks=Hooks())
        images = toy.batch(data.samples)
        moved[weight] = (model(images) - old(images)).norm(dim=1).mean().item()
    assert moved[50.0] < moved[0.0] / 2


def test_a_loss_that_is_not_finite_stops_training_before_it_reaches_the_network(toy):
    model, data = ready(toy)
    broken = type(toy.inputs)(lambda image: torch.full((3, 1, 1), np.inf))
    data = StepData(data.new, [], broken, data.labels)
    with pytest.raises(TrainingError, match="Lower learning_rate"):
        train_features(model, None, data, CONFIG, hooks=Hooks())
    assert all(parameter.isfinite().all() for parameter in model.parameters())
