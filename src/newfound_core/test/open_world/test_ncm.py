# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.open_world.ncm import NcmConfig, NearestClassMean
from newfound_core.open_world.thresholds import exact_thresholds


def head_of(points, **options):
    head = NearestClassMean(5, NcmConfig(**options))
    head.extend(["cup", "fork", "lamp"])
    head.refit([(points.features.float(), points.labels)], features_changed=True)
    head.fit_thresholds(points.features.float(), points.labels)
    return head


def test_it_never_trains_the_network():
    assert not NearestClassMean(5).trains_features


def test_percentile_thresholds_hold_that_share_of_each_class(points):
    head = head_of(points, thresholds="percentile", percentile=50)
    own = head.distances(points.features.float()).gather(1, points.labels[:, None])[:, 0]
    for index in range(3):
        of_class = own[points.labels == index].numpy()
        assert head.rejection_threshold[index].item() == pytest.approx(
            np.median(of_class), rel=1e-5
        )


def test_balanced_thresholds_are_those_of_bdoc(points):
    head = head_of(points)
    expected = exact_thresholds(head.distances(points.features.float()), points.labels)
    torch.testing.assert_close(head.rejection_threshold.double(), expected)


def test_the_score_is_one_on_the_mean_and_zero_on_the_threshold(points):
    head = head_of(points)
    decision = head.decide(head.means.value)
    np.testing.assert_allclose(decision.score.numpy(), 1, atol=1e-3)
    assert head.score(head.rejection_threshold, head.rejection_threshold).tolist() == [0, 0, 0]


def test_senseless_options_are_refused():
    with pytest.raises(ConfigError, match="percentile"):
        NcmConfig(percentile=101)
    with pytest.raises(ConfigError, match="thresholds"):
        NcmConfig(thresholds="guess")  # type: ignore[arg-type]


def test_without_pretrained_weights_the_first_step_may_train_the_network():
    head = NearestClassMean(5, NcmConfig(train_first_step=True))
    assert head.trains_features
    head.end_step()
    assert not head.trains_features
