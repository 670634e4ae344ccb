# SPDX-License-Identifier: Apache-2.0
import copy
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.backbones import build_backbone
from newfound_core.errors import BackboneError, ConfigError, DataError
from newfound_core.normalization import DomainBatchNorm
from newfound_core.onda import Onda, OndaConfig
from newfound_core.places import WbnClassifier

# What OndaConfig allows.
ALLOWED = [("batch", False), ("batch", True), ("streaming", False)]
BOTH = pytest.mark.parametrize("estimator", ["batch", "streaming"])


def source_and_now(onda):
    return onda._source, onda._layers.read()


@BOTH
def test_the_first_update_is_the_printed_equation_with_the_right_n(
    network, shifted_frames, estimator
):
    frames = shifted_frames(10)
    first = network[0](torch.stack(frames)).detach().double().numpy()
    onda = Onda(
        network, OndaConfig.thesis(estimator=estimator, positions_per_frame=36)
    )  # all of them
    source = copy.deepcopy(network[1])
    for frame in frames:
        onda.predict(frame)
    mean = 0.9 * source.running_mean.numpy() + 0.1 * first.mean((0, 2, 3))
    n = 10 * 6 * 6
    biased = first.var((0, 2, 3))
    variance = 0.9 * source.running_var.numpy() + 0.1 * n / (n - 1) * biased
    np.testing.assert_allclose(network[1].running_mean, mean, rtol=1e-4)
    np.testing.assert_allclose(network[1].running_var, variance, rtol=1e-4)


@BOTH
def test_frames_are_predicted_with_the_statistics_before_the_update(
    network, shifted_frames, estimator
):
    frames = shifted_frames(10)
    with torch.no_grad():
        expected = copy.deepcopy(network)(torch.stack(frames))
    onda = Onda(network, OndaConfig.thesis(estimator=estimator))
    torch.testing.assert_close(torch.stack([onda.predict(f) for f in frames]), expected)


@BOTH
def test_only_statistics_of_batch_normalisation_change(network, shifted_frames, estimator):
    before = copy.deepcopy(network.state_dict())
    onda = Onda(network, OndaConfig.thesis(estimator=estimator, frames_per_update=5))
    for frame in shifted_frames(20):
        onda.predict(frame)
    for name, tensor in network.state_dict().items():
        changed = not torch.equal(tensor, before[name])
        assert changed == name.endswith(("running_mean", "running_var")), name
    assert not any(module.training for module in network.modules())
    assert all(parameter.grad is None for parameter in network.parameters())


@BOTH
def test_dropout_stays_off_while_adapting(network, shifted_frames, estimator):
    config = OndaConfig.thesis(estimator=estimator, frames_per_update=5)
    twins = [Onda(network, config), Onda(copy.deepcopy(network), config)]
    network[5].p = 0.9
    outputs = [[onda.predict(frame) for frame in shifted_frames(20)] for onda in twins]
    torch.testing.assert_close(torch.stack(outputs[0]), torch.stack(outputs[1]))


@BOTH
def test_statistics_converge_to_those_of_the_new_domain(network, shifted_frames, estimator):
    onda = Onda(network, OndaConfig.thesis(estimator=estimator, momentum=0.3))
    for frame in shifted_frames(400):
        onda.predict(frame)
    conv = network[0](torch.stack(shifted_frames(200, seed=9))).detach()
    torch.testing.assert_close(network[1].running_mean, conv.mean((0, 2, 3)), rtol=0.1, atol=0.1)
    assert onda.drift().mean > 0.1


@BOTH
def test_a_non_finite_frame_never_enters(network, shifted_frames, estimator):
    onda = Onda(network, OndaConfig.thesis(estimator=estimator, frames_per_update=4))
    for index, frame in enumerate(shifted_frames(12)):
        if index % 3 == 0:
            frame[0, 0, 0] = [float("nan"), float("inf")][index % 2]
        onda.predict(frame)
    status = onda.status()
    assert (status.frames, status.counted, status.rejected, status.updates) == (12, 8, 4, 2)
    assert all(tensor.isfinite().all() for tensor in network.state_dict().values())


@BOTH
def test_an_overflow_inside_the_network_never_enters(network, estimator):
    onda = Onda(network, OndaConfig.thesis(estimator=estimator, frames_per_update=2))
    before = onda._layers.read()
    for _ in range(6):
        onda.predict(torch.full((3, 8, 8), 1e38))
    assert onda.status().updates == 0
    assert onda.status().rejected > 0
    assert torch.equal(onda._layers.read().mean, before.mean)


@BOTH
def test_a_constant_channel_stays_finite(network, estimator):
    onda = Onda(network, OndaConfig.thesis(estimator=estimator, frames_per_update=2, momentum=1.0))
    for _ in range(10):
        assert onda.predict(torch.zeros(3, 8, 8)).isfinite().all()


def test_reset_returns_to_the_source(network, shifted_frames):
    frame = shifted_frames(1)[0]
    expected = network(frame[None])[0].detach()
    onda = Onda(network, OndaConfig.thesis(frames_per_update=2))
    for shifted in shifted_frames(9):
        onda.predict(shifted)
    onda.reset()
    torch.testing.assert_close(onda.predict(frame), expected)
    assert onda.drift().maximum == pytest.approx(0)


def test_frozen_statistics_do_not_move_until_unfrozen(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(frames_per_update=2))
    onda.freeze()
    before = onda._layers.read()
    for frame in shifted_frames(6):
        onda.predict(frame)
    assert torch.equal(onda._layers.read().mean, before.mean)
    assert onda.status().frozen
    onda.unfreeze()
    for frame in shifted_frames(2):
        onda.predict(frame)
    assert not torch.equal(onda._layers.read().mean, before.mean)


def test_momentum_and_frames_per_update_change_while_the_stream_runs(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis())
    for frame in shifted_frames(4):
        onda.predict(frame)
    onda.reconfigure(frames_per_update=5, momentum=1.0)
    onda.predict(shifted_frames(1)[0])
    assert onda.status().updates == 1
    with pytest.raises(ConfigError, match="estimator"):
        onda.reconfigure(estimator="streaming")
    with pytest.raises(ConfigError, match="momentum"):
        onda.reconfigure(momentum=2.0)


@BOTH
def test_an_update_in_another_thread_equals_the_inline_one(network, shifted_frames, estimator):
    config = OndaConfig.thesis(estimator=estimator, frames_per_update=5)
    inline = Onda(copy.deepcopy(network), config)
    apart = Onda(network, config, inline=False)
    with ThreadPoolExecutor(1) as executor:
        for frame in shifted_frames(20):
            inline.predict(frame)
            apart.predict(frame)
            update = apart.pending_update()
            if update is not None:
                assert apart.apply(executor.submit(update.estimate).result())
    assert apart.status().updates == inline.status().updates == 4
    torch.testing.assert_close(apart._layers.read().variance, inline._layers.read().variance)


@BOTH
def test_estimating_in_another_thread_does_not_disturb_predictions(
    network, shifted_frames, estimator
):
    onda = Onda(network, OndaConfig.thesis(estimator=estimator, frames_per_update=5), inline=False)
    probe = shifted_frames(1, seed=3)[0]
    expected = onda.network(probe[None]).detach()
    for frame in shifted_frames(5):
        onda.predict(frame)
    update = onda.pending_update()
    done = threading.Event()

    def estimate_often():
        for _ in range(30):
            update.estimate()
        done.set()

    thread = threading.Thread(target=estimate_often)
    thread.start()
    with torch.no_grad():
        while not done.is_set():
            assert torch.equal(network(probe[None]), expected)
    thread.join()


def test_an_estimate_from_before_a_reset_is_not_applied(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(frames_per_update=2), inline=False)
    for frame in shifted_frames(2):
        onda.predict(frame)
    ready = onda.pending_update().estimate()
    onda.reset()
    assert not onda.apply(ready)
    assert onda.drift().maximum == pytest.approx(0)


@BOTH
def test_two_models_adapting_in_two_threads_do_not_see_each_other(
    make_network, shifted_frames, estimator
):
    config = OndaConfig.thesis(estimator=estimator, frames_per_update=3)
    streams = [shifted_frames(60, seed=0, mean=3.0), shifted_frames(60, seed=1, mean=-2.0)]

    def adapt(stream, network):
        onda = Onda(network, config)
        for frame in stream:
            onda.predict(frame)
        return onda._layers.read()

    alone = [adapt(stream, make_network()) for stream in streams]
    networks = [make_network(), make_network()]
    with ThreadPoolExecutor(2) as executor:
        together = list(executor.map(adapt, streams, networks))
    for a, b in zip(alone, together, strict=True):
        assert torch.equal(a.mean, b.mean)
        assert torch.equal(a.variance, b.variance)


@pytest.mark.parametrize(("estimator", "balanced"), ALLOWED)
def test_memory_stays_flat_over_2000_frames(network, estimator, balanced):
    config = OndaConfig.thesis(estimator=estimator, balanced=balanced, memory_size=8)
    onda = Onda(network, config)
    frame = torch.randn(3, 8, 8)

    def tensors_alive():
        gc.collect()
        return sum(type(thing) is torch.Tensor for thing in gc.get_objects())

    counts = []
    for _ in range(4):
        for _ in range(500):
            onda.predict(frame)
        counts.append(tensors_alive())
    # Anything kept per frame or per update would be hundreds.
    assert max(counts) - min(counts) < 20


def test_frames_that_no_one_learns_from_do_not_pile_up(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(frames_per_update=4), inline=False)
    for frame in shifted_frames(50):
        onda.predict(frame)
    assert len(onda.pending_update().samples) == 4
    assert onda.pending_update() is None


def test_redundant_frames_do_not_count(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(skip_redundant=True, frames_per_update=3))
    for frame in shifted_frames(3):
        for _ in range(10):
            onda.predict(frame + 0.001 * torch.randn_like(frame))
    status = onda.status()
    assert (status.counted, status.redundant, status.updates) == (3, 27, 1)


def test_the_anchor_serves_a_mixture_of_source_and_online_statistics(network, shifted_frames):
    config = OndaConfig.thesis(anchor=True, anchor_online_share=0.25)
    plain = Onda(copy.deepcopy(network), OndaConfig.thesis())
    anchored = Onda(network, config)
    for frame in shifted_frames(10):
        plain.predict(frame)
        anchored.predict(frame)
    source, served = source_and_now(anchored)
    online = plain._layers.read()
    torch.testing.assert_close(served.mean, 0.75 * source.mean + 0.25 * online.mean)
    torch.testing.assert_close(served.variance, 0.75 * source.variance + 0.25 * online.variance)


class Colours(nn.Module):
    """Two classes told apart by red against blue, whatever the brightness it was trained at."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3, affine=False)

    def forward(self, x):
        red, _, blue = self.norm(x).mean((2, 3)).T
        return torch.stack([red, blue], 1) * 10


def colour_stream(order, seed=0):
    """Frames of a darker domain, whose classes differ in one channel each."""
    generator = torch.Generator().manual_seed(seed)
    frames = torch.randn(len(order), 3, 4, 4, generator=generator) * 0.6 - 2
    for frame, label in zip(frames, order, strict=True):
        frame[0 if label == 0 else 2] += 1
    return frames


def accuracy(order, **options):
    network = Colours()
    with torch.no_grad():
        for _ in range(100):
            network.train()(colour_stream([0, 1] * 20) + 2)
    onda = Onda(network.eval(), OndaConfig.thesis(momentum=0.3, **options))
    predictions = [int(onda.predict(frame).argmax()) for frame in colour_stream(order)]
    return float(np.mean(np.array(predictions) == np.array(order)))


def test_a_balanced_memory_survives_a_stream_sorted_by_class():
    warm_up = [0, 1] * 20
    sorted_stream = warm_up + [0] * 300 + [1] * 300
    plain = accuracy(sorted_stream)
    balanced = accuracy(sorted_stream, balanced=True, memory_size=20)
    assert plain < 0.8
    assert balanced > 0.95


def test_balanced_does_no_harm_on_a_shuffled_stream():
    assert accuracy([0, 1] * 150, balanced=True) > 0.95


def test_a_network_in_training_mode_is_refused(network):
    with pytest.raises(BackboneError, match=r"network\.eval"):
        Onda(network.train())


def test_several_frames_are_not_one_prediction(network):
    with pytest.raises(DataError, match="one frame"):
        Onda(network).predict(torch.zeros(2, 3, 8, 8))


@BOTH
def test_the_crops_of_a_frame_are_one_frame_and_all_of_their_values_count(
    network, shifted_frames, estimator
):
    crops = shifted_frames(6)
    first = network[0](torch.stack(crops)).detach().double().numpy()
    source = copy.deepcopy(network[1])
    config = OndaConfig.thesis(estimator=estimator, frames_per_update=3, positions_per_frame=36)
    onda = Onda(network, config)
    expected = copy.deepcopy(network)(torch.stack(crops[3:])).detach()
    onda(torch.stack(crops[:1]))  # frames with one, two and three objects
    onda(torch.stack(crops[1:3]))
    torch.testing.assert_close(onda(torch.stack(crops[3:])), expected)
    status = onda.status()
    assert (status.frames, status.counted, status.updates) == (3, 3, 1)
    n = 6 * 6 * 6
    mean = 0.9 * source.running_mean.numpy() + 0.1 * first.mean((0, 2, 3))
    biased = first.var((0, 2, 3))
    variance = 0.9 * source.running_var.numpy() + 0.1 * n / (n - 1) * biased
    np.testing.assert_allclose(network[1].running_mean, mean, rtol=1e-4)
    np.testing.assert_allclose(network[1].running_var, variance, rtol=1e-4)


def test_a_balanced_memory_holds_every_crop_by_its_own_class(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(balanced=True, frames_per_update=2))
    for number in range(4):
        onda(torch.stack(shifted_frames(3, seed=number)))
    assert (onda.status().frames, onda.status().updates) == (4, 2)
    assert len(onda._memory) == 12


@pytest.mark.parametrize(
    "guards",
    [
        {"estimator": "streaming"},
        {"estimator": "batch"},
        {"confidence_drop": 0.1, "alarm": True},
        {"balanced": True, "alarm": True},
        {"balanced": True, "alarm": True, "alarm_agreement": 0.999, "alarm_hold": 3},
    ],
)
def test_a_replay_in_chunks_is_the_same_as_frame_by_frame(make_network, shifted_frames, guards):
    config = OndaConfig.thesis(4, 0.3, skip_redundant=True, **guards)
    frames = torch.stack(shifted_frames(30)).double()
    frames[7] = frames[6]
    frames[11, 0, 0, 0] = float("nan")
    slow, fast = (Onda(make_network().double(), config) for _ in range(2))
    expected = torch.stack([slow.predict(frame) for frame in frames])
    found = torch.cat([fast.replay(frames[:13]), fast.replay(frames[13:])])
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert fast.status() == slow.status()
    assert slow.status().updates == 7


@BOTH
def test_layers_that_do_not_adapt_keep_the_source_statistics(network, shifted_frames, estimator):
    config = OndaConfig.thesis(estimator=estimator, frames_per_update=4, layers="last:1")
    source = copy.deepcopy(network)
    onda = Onda(network, config)
    for frame in shifted_frames(8):
        onda.predict(frame)
    assert torch.equal(network[1].running_mean, source[1].running_mean)
    assert torch.equal(network[1].running_var, source[1].running_var)
    assert not torch.equal(network[7].running_mean, source[7].running_mean)
    assert list(onda.drift().per_layer) == ["7"]


def test_a_late_layer_follows_what_it_sees_behind_source_statistics(network, shifted_frames):
    frames = shifted_frames(10)
    inputs = copy.deepcopy(network)[:7](torch.stack(frames)).detach().double().numpy()
    before = network[7].running_mean.numpy().copy()
    onda = Onda(network, OndaConfig.thesis(estimator="batch", layers="last:1"))
    for frame in frames:
        onda.predict(frame)
    mean = 0.9 * before + 0.1 * inputs.mean(0)
    np.testing.assert_allclose(network[7].running_mean, mean, rtol=1e-4, atol=1e-6)


def test_the_network_says_which_layers_adapt_unless_the_options_do(network):
    assert len(Onda(network).drift().per_layer) == 2  # it says nothing: all
    network.adaptive_layers = "last:1"
    assert list(Onda(network).drift().per_layer) == ["7"]
    assert len(Onda(network, OndaConfig.thesis(layers="all")).drift().per_layer) == 2


def test_more_layers_than_there_are_cannot_adapt(network):
    with pytest.raises(ConfigError, match="has 2 normalisation layers"):
        Onda(network, OndaConfig.thesis(layers="last:3"))


def test_probabilities_sum_to_one_and_accept_a_batch_of_one(network):
    probabilities = Onda(network).probabilities(torch.zeros(1, 3, 8, 8))
    assert probabilities.shape == (3,)
    assert float(probabilities.sum()) == pytest.approx(1.0)


def test_a_frame_that_fails_leaves_the_adapter_usable(network):
    onda = Onda(network, OndaConfig.thesis(estimator="streaming", frames_per_update=2))
    with pytest.raises(RuntimeError):
        onda.predict(torch.zeros(5, 8, 8))  # five channels where three are expected
    for _ in range(2):
        onda.predict(torch.randn(3, 8, 8))
    assert onda.status().updates == 1


def test_closing_removes_the_hooks(network):
    onda = Onda(network, OndaConfig.thesis(estimator="streaming"))
    assert network[1]._forward_pre_hooks
    onda.close()
    assert not network[1]._forward_pre_hooks


@BOTH
def test_a_place_classifier_adapts_the_domains_its_frames_belong_to(estimator, shifted_frames):
    torch.manual_seed(0)
    model = WbnClassifier(build_backbone("resnet10"), places=3, domains=2).eval()
    with torch.no_grad():
        model.branch.linear.bias.copy_(torch.tensor([200.0, -200.0]))  # all frames in the first
    layer = model.backbone.stages[0].get_submodule(first_domain_layer(model.backbone.stages[0]))
    before = layer.running_mean.clone()
    onda = Onda(model, OndaConfig.thesis(estimator=estimator, frames_per_update=2))
    for frame in shifted_frames(4, size=32):
        assert onda.predict(frame).shape == (3,)
    assert onda.status().updates == 2
    assert not torch.equal(layer.running_mean[0], before[0])
    assert torch.equal(layer.running_mean[1], before[1])


def first_domain_layer(stage):
    return next(n for n, m in stage.named_modules() if isinstance(m, DomainBatchNorm))
