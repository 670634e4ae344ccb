# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.open_world.bdoc import Bdoc, BdocConfig
from newfound_core.open_world.heads import build_head


def head_of(points, **options):
    head = Bdoc(5, BdocConfig(**options)).double()
    head.extend(["cup", "fork", "lamp"])
    head.refit([(points.features, points.labels)], features_changed=True)
    return head


def in_form(squares, variance, form):
    if form == "norm":
        return np.sqrt(squares / variance)
    return squares / (variance if form == "squared" else 5 * variance)


@pytest.mark.parametrize("form", ["norm", "squared", "squared_summed"])
def test_the_loss_is_the_printed_one_normalised_once(points, form):
    head = head_of(points, distance=form, local_weight=0.6, distillation_weight=0.3)
    x, y = points.features.numpy(), points.labels.numpy()
    old, means = x + 0.5, head.means.value.numpy()
    variance = x.var(axis=0).mean()
    to_means = in_form(((x[:, None] - means) ** 2).sum(-1), variance, form)
    to_batch = in_form(((x[:, None] - x) ** 2).sum(-1), variance, form)
    expected = 0.0
    for i in range(24):
        expected += to_means[i, y[i]] + math.log(np.exp(-to_means[i]).sum())
        others = [j for j in range(24) if j != i]
        own = sum(math.exp(-to_batch[i, j]) for j in others if y[j] == y[i])
        expected -= 0.6 * math.log(own / sum(math.exp(-to_batch[i, j]) for j in others))
        expected += 0.3 * np.linalg.norm(x[i] - old[i])
    found = head.loss(points.features, points.labels, torch.tensor(old))["total"]
    assert found.item() == pytest.approx(expected / 24, rel=1e-6)


@pytest.mark.parametrize("form", ["norm", "squared", "squared_summed"])
def test_gradients_are_right_through_the_variance_too(points, form):
    head = head_of(points, distance=form, detach_variance=False)
    features = points.features[:7].clone().requires_grad_()
    old = points.features[:7] + 0.3
    assert torch.autograd.gradcheck(
        lambda f: head.loss(f, points.labels[:7], old)["total"], features
    )


def test_gradients_are_right_with_the_variance_held_fixed(points, monkeypatch):
    head = head_of(points)
    features = points.features[:7].clone().requires_grad_()
    variance = features.detach().var(dim=0, unbiased=False).mean()

    def loss(f):
        return head.loss(f, points.labels[:7])["total"]

    (detached,) = torch.autograd.grad(loss(features), features)
    monkeypatch.setattr(head, "_batch_variance", lambda f: variance)
    assert torch.autograd.gradcheck(loss, features)
    torch.testing.assert_close(torch.autograd.grad(loss(features), features)[0], detached)


def test_with_the_variances_gradient_the_loss_is_blind_to_the_features_scale(points):
    """The derivative of the local term by the scale of all features.

    Scaling features scales their deviation alike, so with its gradient nothing changes.
    """
    for detach, flat in ((False, True), (True, False)):
        head = head_of(points, detach_variance=detach)
        scale = torch.ones((), dtype=torch.float64, requires_grad=True)
        loss = head.loss(points.features * scale, points.labels)["local"]
        (slope,) = torch.autograd.grad(loss, scale)
        assert (abs(slope.item()) < 1e-9) == flat


def test_the_variance_is_followed_online_and_restarted_with_each_epoch(points):
    head = head_of(points)
    head.begin_epoch(0, 2)
    parts = points.features[:12], points.features[12:]
    for part in parts:
        head.observe(part, points.labels[:12])
    expected = np.mean([part.numpy().var(axis=0).mean() for part in parts])
    assert head.variance.item() == pytest.approx(expected)
    head.begin_epoch(1, 2)
    head.observe(parts[0], points.labels[:12])
    assert head.variance.item() == pytest.approx(parts[0].numpy().var(axis=0).mean())


def test_a_step_ends_with_the_exact_variance_of_the_data(points):
    head = head_of(points)
    assert head.variance.item() == pytest.approx(points.features.numpy().var(axis=0).mean())


@pytest.mark.parametrize("form", ["norm", "squared", "squared_summed"])
def test_distances_at_test_time_use_the_online_variance(points, form):
    head = head_of(points, distance=form)
    head.variance.fill_(2.5)
    squares = ((points.features.numpy()[:, None] - head.means.value.numpy()) ** 2).sum(-1)
    found = head.distances(points.features).numpy()
    np.testing.assert_allclose(found, in_form(squares, 2.5, form), rtol=1e-9)


@pytest.mark.parametrize("form", ["norm", "squared", "squared_summed"])
def test_thresholds_let_in_own_held_out_samples_and_keep_out_others(points, form):
    head = head_of(points, distance=form)
    head.fit_thresholds(points.features, points.labels)
    assert head.decide(points.features).known.double().mean() > 0.6
    assert not head.decide(points.features + 30).known.any()


def test_thresholds_from_few_samples_are_drawn_to_a_shared_one(points):
    alone, drawn = head_of(points), head_of(points, shared_threshold_samples=4.0)
    for head in (alone, drawn):
        head.fit_thresholds(points.features, points.labels)
    distances = alone.distances(points.features).double().numpy()
    labels = points.labels.numpy()
    shared = np.percentile(distances[np.arange(len(labels)), labels], 75)
    count = np.bincount(labels)
    expected = (count * alone.rejection_threshold.double().numpy() + 4 * shared) / (count + 4)
    np.testing.assert_allclose(drawn.rejection_threshold.double().numpy(), expected, rtol=1e-5)


def test_an_added_class_gets_its_threshold_from_those_before_and_changes_none(points):
    head = head_of(points, added_threshold_factor=1.5)
    head.fit_thresholds(points.features, points.labels)
    before = head.rejection_threshold.clone()
    head.extend(["shoe"])
    one = points.features[:1]
    head.refit([(one, torch.tensor([len(before)]))], features_changed=False)
    head.fit_added_thresholds(one, torch.tensor([len(before)]), len(before))
    assert torch.equal(head.rejection_threshold[:-1], before)
    assert head.rejection_threshold[-1].item() == pytest.approx(1.5 * before.median().item())


def test_the_printed_values_are_at_hand():
    config = BdocConfig.as_printed()
    assert (config.distance, config.detach_variance) == ("squared", False)
    assert (config.reject_when, config.choose_from) == ("all_beyond", "all")
    assert (config.local_weight, config.distillation_weight) == (1, 1)


@pytest.mark.parametrize("options", [{"distance": "taxi"}, {"local_weight": -1}])
def test_senseless_options_are_refused(options):
    with pytest.raises(ConfigError):
        BdocConfig(**options)


def test_thresholds_from_correct_samples_ignore_those_nearer_to_another_class():
    features = torch.tensor([[0.0], [0.2], [0.9], [1.0], [1.2], [0.1], [5.0], [5.1]])
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])

    def thresholds(kept, **options):
        head = build_head("bdoc", 1, **options)
        head.extend(["a", "b", "c"])
        head.refit([(torch.tensor([[0.0], [1.0], [2.0]]), torch.arange(3))], features_changed=True)
        head.fit_thresholds(features[kept], labels[kept])
        return head.rejection_threshold

    everything, right = torch.arange(8), torch.tensor([0, 1, 3, 4, 6, 7])
    correct = thresholds(everything, thresholds_from_correct=True)
    torch.testing.assert_close(correct, thresholds(right))
    assert not torch.equal(correct, thresholds(everything))
