# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.open_world.nno import NearestNonOutlier, NnoConfig


def head_of(points, **options):
    head = NearestNonOutlier(5, NnoConfig(**options))
    head.extend(["cup", "fork", "lamp"])
    head.refit([(points.features.float(), points.labels)], features_changed=True)
    head.fit_thresholds(points.features.float(), points.labels)
    return head


def test_the_score_and_the_decision_are_the_printed_ones(points):
    head = head_of(points)
    x, means = points.features.numpy(), head.means.value.double().numpy()
    distances = np.linalg.norm(x[:, None] - means[None], axis=-1)
    own = distances[np.arange(24), points.labels.numpy()]
    tau = np.median(own)
    scores = 1 - distances / tau
    decision = head.decide(points.features.float())
    np.testing.assert_allclose(decision.score.numpy(), scores.max(1), atol=1e-4)
    on_the_edge = np.abs(scores.max(1)) < 1e-4
    expected = np.where((scores <= 0).all(1), -1, scores.argmax(1))
    np.testing.assert_array_equal(decision.label.numpy()[~on_the_edge], expected[~on_the_edge])


def test_the_threshold_is_chosen_in_the_first_step_and_then_fixed(points):
    head = head_of(points)
    first = head.rejection_threshold[0].item()
    head.end_step()
    head.extend(["shoe"])
    head.fit_thresholds(points.features.float() * 9, points.labels)
    assert head.rejection_threshold.tolist() == [first] * 4


def test_the_network_trains_in_the_first_step_only(points):
    head = head_of(points)
    assert head.trains_features
    head.end_step()
    assert not head.trains_features
    assert not NearestNonOutlier(5, NnoConfig(train_first_step=False)).trains_features


def test_a_high_percentile_rejects_nothing_of_the_training_set(points):
    head = head_of(points, percentile=100)
    assert head.decide(points.features.float()).known.all()
    half = head_of(points, percentile=50).decide(points.features.float()).known.double().mean()
    assert 0.3 < half < 0.9


def test_leaving_one_class_out_is_an_option(points):
    head = head_of(points, thresholds="leave_one_class_out")
    assert torch.isfinite(head.rejection_threshold).all()


def test_senseless_options_are_refused():
    with pytest.raises(ConfigError, match="thresholds"):
        NnoConfig(thresholds="guess")  # type: ignore[arg-type]
