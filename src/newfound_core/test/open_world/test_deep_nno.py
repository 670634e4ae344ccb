# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.open_world.deep_nno import DeepNno, DeepNnoConfig


def head_on_a_line(**options):
    """Two classes with means 0 and 10 on a line."""
    head = DeepNno(1, DeepNnoConfig(**options))
    head.extend(["cup", "fork"])
    head.begin_step()
    head.begin_epoch(0, 1)
    head.means.update(torch.tensor([[0.0], [10.0]]), torch.tensor([0, 1]))
    return head


def at(*distances):
    """Features with these distances to the mean of class 0."""
    return torch.tensor([[d] for d in distances])


def test_the_loss_is_the_printed_one_plus_distillation(points):
    head = DeepNno(5, DeepNnoConfig(distillation_weight=0.7))
    head.extend(["cup", "fork", "lamp"])
    head.refit([(points.means.float(), torch.arange(3))], features_changed=True)
    x, y, old = points.features.numpy(), points.labels.numpy(), points.features.numpy() + 0.5
    means = points.means.float().double().numpy()
    expected = 0.0
    for i in range(24):
        s = np.exp(-np.linalg.norm(x[i] - means, axis=1) / 2)
        expected -= math.log(s[y[i]]) + sum(math.log(1 - s[c]) for c in range(3) if c != y[i])
        expected += 0.7 * np.linalg.norm(x[i] - old[i])
    terms = head.loss(points.features, points.labels, torch.tensor(old))
    assert terms["total"].item() == pytest.approx(expected / 24, rel=1e-6)
    assert set(terms) == {"total", "scores", "distillation"}


def test_the_threshold_follows_the_hand_worked_average():
    """Scores of class 0 at distances 2 ln 2 and 2 ln 4 are 1/2 and 1/4; class 1 is absent."""
    head = head_on_a_line()
    half, quarter = 2 * math.log(2), 2 * math.log(4)
    labels = torch.zeros(2, dtype=torch.int64)
    head._average_threshold(at(half, quarter), labels)
    # Threshold 0: both accepted, weight 1 each. (0 * 0 + 3/8) / 1.
    assert head.threshold.item() == pytest.approx(3 / 8)
    head._average_threshold(at(half, quarter), labels)
    # 1/2 accepted with weight 1, 1/4 rejected with weight 3: (1/2 + 3/4) / 4 = 5/16.
    assert head.threshold.item() == pytest.approx((3 / 8 + 5 / 16) / 2)
    # Class 1 joins with score 1: the mean over classes present, (s_0 + 1) / 2.
    before = head.threshold.item()
    head._average_threshold(torch.tensor([[half], [10.0]]), torch.tensor([0, 1]))
    assert head.threshold.item() == pytest.approx((2 * before + 3 / 4) / 3, rel=1e-5)


def test_rejection_by_threshold_equals_rejection_by_score():
    head = head_on_a_line()
    head._average_threshold(at(2 * math.log(2)), torch.tensor([0]))  # threshold 1/2
    decision = head.decide(at(1.3, 1.5, -1.3, -1.5))  # scores .52, .47
    assert decision.label.tolist() == [0, -1, 0, -1]
    np.testing.assert_allclose(decision.score.numpy(), np.exp([-0.65, -0.75] * 2), rtol=1e-4)
    assert decision.rejection_threshold[0].item() == pytest.approx(2 * math.log(2), rel=1e-5)


def test_a_new_step_starts_the_threshold_anew():
    head = head_on_a_line()
    head.observe(at(1.0), torch.tensor([0]))
    assert head.threshold > 0
    head.begin_step()
    assert head.threshold == 0
    assert head.threshold_batches == 0
    assert head.decide(at(100.0)).known.all()  # a threshold of zero rejects nothing


def test_epochs_of_the_warm_up_are_left_out_of_the_threshold():
    head = head_on_a_line(threshold_warmup=0.5)
    averaged = []
    for epoch in range(4):
        head.begin_epoch(epoch, 4)
        head.observe(at(1.0), torch.tensor([0]))
        averaged.append(head.threshold_batches.item())
    assert averaged == [0, 0, 1, 2]


def test_without_training_the_threshold_is_averaged_over_the_samples_for_thresholds():
    head = head_on_a_line()
    head.fit_thresholds(at(2 * math.log(2)), torch.tensor([0]))
    assert head.threshold.item() == pytest.approx(0.5)


def test_a_threshold_from_training_is_kept_and_one_from_held_out_samples_replaces_it():
    for source, expected in (("training", 0.25), ("held_out", 0.5)):
        head = head_on_a_line(threshold_from=source)
        head.observe(at(2 * math.log(4)), torch.tensor([0]))
        head.means.restart_counts()
        head.means.update(torch.tensor([[0.0]]), torch.tensor([0]))
        head.fit_thresholds(at(2 * math.log(2)), torch.tensor([0]))
        assert head.threshold.item() == pytest.approx(expected)


def test_an_added_class_leaves_the_threshold_where_it_is():
    head = head_on_a_line(threshold_from="held_out")
    head.fit_thresholds(at(2 * math.log(2)), torch.tensor([0]))
    head.extend(["lamp"])
    head.refit([(at(5.0), torch.tensor([2]))], features_changed=False)
    head.fit_added_thresholds(at(5.0), torch.tensor([2]), 2)  # on its mean: a score of one
    assert head.threshold.item() == pytest.approx(0.5)
    assert head.rejection_threshold.tolist() == pytest.approx([2 * math.log(2)] * 3)


def test_rejected_samples_weigh_more_even_if_few_are_held_out():
    """Scores 0.2 and 0.8, weights 3 and 1: the threshold settles at (3 * 0.2 + 0.8) / 4."""
    head = head_on_a_line(threshold_from="held_out", rejected_weight=3.0)
    head.means.update(torch.tensor([[0.0]]), torch.tensor([0]))
    features = torch.cat([at(-2 * math.log(0.2)), at(-2 * math.log(0.8))])
    head.fit_thresholds(features, torch.tensor([0, 0]))
    assert head.threshold.item() == pytest.approx(0.35, abs=0.002)


def test_the_printed_values_are_at_hand():
    config = DeepNnoConfig.as_printed()
    assert config.distillation_weight == 1
    assert config.threshold_warmup == 0
    assert (config.accepted_weight, config.rejected_weight) == (1, 3)


@pytest.mark.parametrize(
    "options",
    [
        {"distillation_weight": -1},
        {"threshold_warmup": 1.0},
        {"score_margin": 0},
        {"threshold_from": "stars"},
        {"rejected_weight": math.nan},
    ],
)
def test_senseless_options_are_refused(options):
    with pytest.raises(ConfigError):
        DeepNnoConfig(**options)
