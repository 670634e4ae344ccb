# SPDX-License-Identifier: Apache-2.0
import copy
import math

import pytest
import torch
from torch import nn

from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.folding import logits_of
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.onda.watch import RECENT, WINDOW, Answer, Watch

CONFIG = OndaConfig()


def watch_of(network, confidence=None, config=CONFIG):
    if confidence is not None:
        network.source_confidence = confidence
    watch = Watch(NormalizationLayers(network), logits_of)
    watch.restart(config)
    return watch


def answers(count, agree=True, confidence=0.99):
    return [Answer(label=1, confidence=confidence, adapted=1 if agree else 0)] * count


def collapsing(wrong):
    """Two classes, so many of the second called the first."""
    names = [(1, 1)] * 15 + [(2, 1)] * wrong + [(2, 2)] * (15 - wrong)
    return [Answer(label, 0.99, adapted) for label, adapted in names]


def certain(probability, classes=3):
    """Logits of one frame with this probability of the first class."""
    rest = (1 - probability) / (classes - 1)
    return torch.tensor([[probability] + [rest] * (classes - 1)]).log()


def test_an_alarm_needs_enough_images_that_the_source_is_certain_of(network):
    watch = watch_of(network)
    assert watch.judge(answers(11, agree=False), CONFIG) is None
    assert watch.judge(answers(40, agree=False, confidence=0.5), CONFIG) is None
    assert not watch.resting
    assert "agrees with the source on 0 % of 12 images" in watch.judge(
        answers(12, agree=False), CONFIG
    )
    assert watch.resting


def test_one_class_for_long_is_no_alarm_as_long_as_the_source_agrees(network):
    watch = watch_of(network)
    for _ in range(50):
        assert watch.judge(answers(3), CONFIG) is None
    assert watch.agreement() == 1.0


def test_agreement_must_be_below_the_limit_by_a_standard_error(network):
    # limit 0.75: sqrt(0.75 * 0.25 / 30) = 0.079, so 21 of 30 (0.70) pass and 20 (0.667) do not
    assert watch_of(network).judge(collapsing(9), CONFIG) is None
    assert watch_of(network).judge(collapsing(10), CONFIG) is not None


def test_a_network_that_names_as_many_classes_as_the_source_did_not_collapse(network):
    """In another light the source may be certain and wrong."""
    moved = [Answer(label=n % 3, confidence=0.99, adapted=(n + 1) % 3) for n in range(30)]
    assert watch_of(network).judge(moved, CONFIG) is None
    confident = watch_of(network, confidence=0.99)
    confident.resting = False
    assert confident.judge(moved, CONFIG) is not None  # nothing speaks against this source
    del network.source_confidence
    fewer = [Answer(label=n % 3, confidence=0.99, adapted=0) for n in range(30)]
    assert watch_of(network).judge(fewer, CONFIG) is not None


def test_without_the_alarm_a_contradicted_source_stays_silent(network):
    config = OndaConfig(alarm=False)
    assert watch_of(network, config=config).judge(answers(30, agree=False), config) is None


def test_adaptation_rests_longer_after_every_alarm_and_is_tried_again(network):
    watch = watch_of(network)
    for held in (200, 400, 800, 1600, 3200, 3200):
        assert watch.judge(answers(30, agree=False), CONFIG) is not None
        assert not watch.wake(held - 10, CONFIG)
        assert watch.holding
        assert watch.wake(10, CONFIG)
        assert not watch.resting
    watch.judge(answers(WINDOW), CONFIG)  # all is well for long
    watch.judge(answers(30, agree=False), CONFIG)
    assert watch.wake(200, CONFIG)


def test_the_source_serves_while_it_is_as_confident_as_on_its_own_images(network):
    watch = watch_of(network, confidence=0.9)
    assert watch.resting
    for _ in range(RECENT):
        watch.observe(certain(0.895))
    assert watch.confidence_drop() == pytest.approx(0.005, abs=1e-5)
    assert not watch.wake(10, CONFIG)
    for _ in range(WINDOW):
        watch.observe(certain(0.85))
    assert watch.wake(10, CONFIG)
    assert not watch.resting


def test_a_few_images_do_not_show_a_need_to_adapt(network):
    watch = watch_of(network, confidence=0.9)
    for _ in range(RECENT - 1):
        watch.observe(certain(0.4))
    assert not watch.wake(10, CONFIG)


def test_the_source_serves_again_once_it_is_confident_for_long(network):
    watch = watch_of(network, confidence=0.9)
    watch.resting = False
    watch.judge(answers(WINDOW - 1, confidence=0.95), CONFIG)
    assert not watch.resting
    assert watch.judge(answers(1, confidence=0.95), CONFIG) is None
    assert watch.resting
    assert not watch.holding


@pytest.mark.parametrize("drop", [0.0, 0.01])
def test_a_network_that_does_not_know_its_confidence_always_adapts(network, drop):
    watch = watch_of(network, config=OndaConfig(confidence_drop=drop))
    assert not watch.resting
    assert math.isnan(watch.confidence_drop())


def test_a_frame_that_is_not_finite_is_not_observed(network):
    watch = watch_of(network, confidence=0.9)
    watch.observe(torch.full((1, 3), float("nan")))
    assert math.isnan(watch.confidence_drop())


def test_the_source_is_asked_with_its_own_statistics_whatever_the_network_became(network):
    frame = torch.randn(1, 3, 8, 8)
    expected = copy.deepcopy(network)(frame)[0].softmax(-1).max(0)
    watch = watch_of(network)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
            module.running_mean += 5
    (answer,) = watch.compare([(frame, 2)])
    assert answer.label == int(expected.indices)
    assert answer.confidence == pytest.approx(float(expected.values), rel=1e-5)
    assert answer.adapted == 2


def test_an_alarm_restores_the_source_and_the_status_says_why(
    network, shifted_frames, monkeypatch
):
    monkeypatch.setattr(Watch, "compare", lambda *_: answers(30, agree=False))
    onda = Onda(network, OndaConfig(frames_per_update=5, alarm_hold=10))
    for frame in shifted_frames(5):
        onda.predict(frame)
    status = onda.status()
    assert (status.alarms, status.resting, status.agreement) == (1, True, 0.0)
    assert status.last_alarm.endswith("at frame 5")
    assert onda.drift().maximum == pytest.approx(0)
    for frame in shifted_frames(10):
        onda.predict(frame)
    assert not onda.status().resting
    assert onda.status().updates == 1
    onda.reset()
    assert math.isnan(onda.status().agreement)


def test_batch_follows_the_stream_at_rest_but_the_source_serves(network, shifted_frames):
    network.source_confidence = 0.01  # always more confident than that
    frames = shifted_frames(20)
    source = copy.deepcopy(network)
    onda = Onda(network, OndaConfig(frames_per_update=5))
    found = torch.stack([onda.predict(frame) for frame in frames])
    torch.testing.assert_close(found, source(torch.stack(frames)).detach())
    assert (onda.status().updates, onda.status().resting) == (4, True)
    assert onda.drift().maximum > 0


def test_streaming_gathers_nothing_at_rest(network, shifted_frames):
    network.source_confidence = 0.01
    onda = Onda(network, OndaConfig(frames_per_update=5, estimator="streaming", balanced=False))
    for frame in shifted_frames(20):
        onda.predict(frame)
    assert (onda.status().updates, onda.status().counted) == (0, 0)


def test_statistics_are_there_when_they_are_needed(network, shifted_frames):
    network.source_confidence = 1.0  # never so confident
    onda = Onda(network, OndaConfig(frames_per_update=5))
    frames = shifted_frames(RECENT + 5)
    for frame in frames[: RECENT - 5]:
        onda.predict(frame)
    assert onda.status().resting
    for frame in frames[RECENT - 5 :]:
        onda.predict(frame)
    assert not onda.status().resting
    served = onda._layers.read()
    assert torch.equal(served.mean, onda._online.mean)
    assert onda.status().updates == 7
