# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_training.online.measures import accuracies, curve, gap_closed, mean_of


def test_accuracy_after_a_share_is_that_of_the_next_tenth():
    correct = np.zeros(100, bool)
    correct[25:30] = True  # half of the tenth after 25
    correct[90:100] = True
    found = accuracies(correct)
    assert found["after_25"] == 0.5
    assert found["after_50"] == 0.0
    assert found["after_90"] == 1.0
    assert found["last_half"] == pytest.approx(0.2)
    assert found["all"] == pytest.approx(0.15)


def test_a_very_short_stream_still_has_accuracies():
    assert accuracies(np.array([True]))["last_half"] == 1.0


def test_the_closed_share_of_the_gap():
    assert gap_closed(0.5, source_only=0.3, re_estimated=0.7) == pytest.approx(0.5)
    assert gap_closed(0.2, source_only=0.3, re_estimated=0.7) == pytest.approx(-0.25)


def test_without_a_gap_there_is_no_share_of_it():
    assert gap_closed(0.5, source_only=0.3, re_estimated=0.31) is None
    # Where the target's own statistics do harm, following them is not a success of 100 %.
    assert gap_closed(0.74, source_only=0.88, re_estimated=0.73) is None


def test_means_are_taken_name_by_name():
    assert mean_of([{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 0.0}]) == {"a": 0.5, "b": 0.0}


def test_the_curve_is_a_moving_mean_over_time_and_streams():
    streams = [np.array([1, 1, 0, 0, 1] * 2, bool), np.array([1, 0, 0, 0, 0] * 2, bool)]
    frames, values = curve(streams, window=2)
    together = np.mean(streams, axis=0)
    np.testing.assert_allclose(values, (together[:-1] + together[1:]) / 2)
    assert frames[0] == 2
    assert frames[-1] == 10
