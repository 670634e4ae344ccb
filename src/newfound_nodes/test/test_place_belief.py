# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_nodes.place_categorizer import PlaceBelief

SEEN = np.array([0.6, 0.3, 0.1])


@pytest.fixture
def belief():
    """A belief and its updates at given times."""
    place = PlaceBelief(3)

    def at(stamp, received=0.0, seen=SEEN, change=0.2, gap=5.0):
        times = {"stamp": stamp, "received": received}
        return place.update(seen, **times, change_per_second=change, gap=gap)

    at.place = place
    return at


def test_the_belief_is_what_a_filter_in_double_precision_says(belief):
    belief(10.0)
    found = belief(11.0)
    prior = SEEN * 0.8 + (1 - SEEN) * 0.2 / 2  # the place is another one with 0.2 after 1 s
    np.testing.assert_allclose(found, prior * SEEN / (prior * SEEN).sum())


def test_between_frames_the_same_time_changes_as_much_at_any_rate():
    slow, fast = PlaceBelief(2), PlaceBelief(2)
    options = {"received": 0.0, "change_per_second": 0.01, "gap": 5.0}
    for place in (slow, fast):
        place.update(np.array([0.999, 0.001]), stamp=0.0, **options)
    unsure = np.array([0.5, 0.5])
    for step in range(1, 11):
        quickly = fast.update(unsure, stamp=step / 10, **options)
    slowly = slow.update(unsure, stamp=1.0, **options)
    np.testing.assert_allclose(quickly, slowly, atol=1e-4)


@pytest.mark.parametrize("later", [10.0, -1.0])
def test_after_a_gap_or_a_step_back_in_time_it_begins_anew(belief, later):
    for stamp in (0.0, 1.0, 2.0):
        belief(stamp)
    np.testing.assert_allclose(belief(2.0 + later), SEEN, atol=1e-9)


def test_without_stamps_the_time_of_arrival_counts(belief):
    belief(0.0, received=5.0)
    with_arrival = belief(0.0, received=6.0)
    prior = SEEN * 0.8 + (1 - SEEN) * 0.2 / 2
    np.testing.assert_allclose(with_arrival, prior * SEEN / (prior * SEEN).sum())


def test_a_long_time_makes_every_place_alike_but_not_less_than_that(belief):
    belief(0.0)
    np.testing.assert_allclose(belief(1000.0, change=0.9, gap=1e6), SEEN, atol=1e-9)


def test_forgetting_leaves_nothing(belief):
    belief(0.0)
    belief.place.forget()
    np.testing.assert_allclose(belief(0.1), SEEN)
