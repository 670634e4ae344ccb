# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.open_world.losses import exact_thresholds
from newfound_core.open_world.ncm import NcmConfig, NearestClassMean, NearestNonOutlier, NnoConfig


def ncm_head(points, **options):
    head = NearestClassMean(5, NcmConfig(**options))
    head.extend(["cup", "fork", "lamp"])
    head.refit([(points.features.float(), points.labels)], features_changed=True)
    head.fit_thresholds(points.features.float(), points.labels)
    return head


def test_it_never_trains_the_network():
    assert not NearestClassMean(5).trains_features


def test_percentile_thresholds_hold_that_share_of_each_class(points):
    head = ncm_head(points, thresholds="percentile", percentile=50)
    own = head.distances(points.features.float()).gather(1, points.labels[:, None])[:, 0]
    for index in range(3):
        of_class = own[points.labels == index].numpy()
        assert head.rejection_threshold[index].item() == pytest.approx(
            np.median(of_class), rel=1e-5
        )


def test_balanced_thresholds_are_those_of_bdoc(points):
    head = ncm_head(points)
    expected = exact_thresholds(head.distances(points.features.float()), points.labels)
    torch.testing.assert_close(head.rejection_threshold.double(), expected)


def test_the_score_is_one_on_the_mean_and_zero_on_the_threshold(points):
    head = ncm_head(points)
    decision = head.decide(head.means.value)
    np.testing.assert_allclose(decision.score.numpy(), 1, atol=1e-3)
    assert head.score(head.rejection_threshold, head.rejection_threshold).tolist() == [0, 0, 0]


def test_senseless_options_of_ncm_are_refused():
    with pytest.raises(ConfigError, match="percentile"):
        NcmConfig(percentile=101)
    with pytest.raises(ConfigError, match="thresholds"):
        NcmConfig(thresholds="guess")  # type: ignore[arg-type]


def test_without_pretrained_weights_the_first_step_may_train_the_network():
    head = NearestClassMean(5, NcmConfig(train_first_step=True))
    assert head.trains_features
    head.end_step()
    assert not head.trains_features


def nno_head(points, **options):
    head = NearestNonOutlier(5, NnoConfig(**options))
    head.extend(["cup", "fork", "lamp"])
    head.refit([(points.features.float(), points.labels)], features_changed=True)
    head.fit_thresholds(points.features.float(), points.labels)
    return head


def test_the_score_and_the_decision_are_the_printed_ones(points):
    head = nno_head(points)
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
    head = nno_head(points)
    first = head.rejection_threshold[0].item()
    head.end_step()
    head.extend(["shoe"])
    head.fit_thresholds(points.features.float() * 9, points.labels)
    assert head.rejection_threshold.tolist() == [first] * 4


def test_the_network_trains_in_the_first_step_only(points):
    head = nno_head(points)
    assert head.trains_features
    head.end_step()
    assert not head.trains_features
    assert not NearestNonOutlier(5, NnoConfig(train_first_step=False)).trains_features


def test_a_high_percentile_rejects_nothing_of_the_training_set(points):
    head = nno_head(points, percentile=100)
    assert head.decide(points.features.float()).known.all()
    half = nno_head(points, percentile=50).decide(points.features.float()).known.double().mean()
    assert 0.3 < half < 0.9


def test_leaving_one_class_out_is_an_option(points):
    head = nno_head(points, thresholds="leave_one_class_out")
    assert torch.isfinite(head.rejection_threshold).all()


def test_senseless_options_of_nno_are_refused():
    with pytest.raises(ConfigError, match="thresholds"):
        NnoConfig(thresholds="guess")  # type: ignore[arg-type]
