# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_core.errors import ConfigError, DataError
from newfound_core.place_filter import PlaceFilter


def test_two_steps_by_hand():
    places = PlaceFilter(2, change_probability=0.1)
    np.testing.assert_allclose(places.update([0.8, 0.2]), [0.8, 0.2])
    # Before the second frame: 0.9 * 0.8 + 0.1 * 0.2 = 0.74 and 0.26.
    both = np.array([0.74 * 0.6, 0.26 * 0.4])
    np.testing.assert_allclose(places.update([0.6, 0.4]), both / both.sum())


def test_one_wrong_frame_does_not_move_the_robot_but_a_new_room_does():
    places = PlaceFilter(3, change_probability=0.05)
    for _ in range(20):
        places.update([0.7, 0.2, 0.1])
    assert places.update([0.1, 0.8, 0.1]).argmax() == 0
    for _ in range(5):
        belief = places.update([0.1, 0.8, 0.1])
    assert belief.argmax() == 1


def test_a_certain_but_wrong_frame_is_recovered_from():
    places = PlaceFilter(2)
    places.update([1.0, 0.0])
    for _ in range(3):
        belief = places.update([0.0, 1.0])
    assert belief.argmax() == 1
    assert belief.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [[0.5, np.nan], [0.0, 0.0], [-1.0, 2.0], [1.0]])
def test_a_bad_observation_is_refused_and_changes_nothing(bad):
    places = PlaceFilter(2)
    before = places.update([0.9, 0.1])
    with pytest.raises(DataError):
        places.update(bad)
    np.testing.assert_array_equal(places.belief, before)


def test_reset_forgets():
    places = PlaceFilter(4)
    places.update([1.0, 0, 0, 0])
    places.reset()
    np.testing.assert_allclose(places.belief, 0.25)


def test_senseless_options_are_named():
    with pytest.raises(ConfigError, match="2 places"):
        PlaceFilter(1)
    with pytest.raises(ConfigError, match="change_probability"):
        PlaceFilter(3, 0.0)
