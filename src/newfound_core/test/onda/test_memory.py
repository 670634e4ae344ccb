# SPDX-License-Identifier: Apache-2.0
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from newfound_core.onda.memory import BalancedMemory, LatestFrames, Observation


def test_the_latest_frames_are_drawn_once_and_never_more_than_the_limit():
    frames = LatestFrames()
    for index in range(25):
        frames.add(Observation(index), limit=10)
    assert [o.sample for o in frames.draw(10)] == list(range(15, 25))
    assert frames.draw(10) == []


def test_one_class_alone_fills_its_share_only():
    memory = BalancedMemory(size=12, classes=4)
    for index in range(100):
        memory.add(Observation(index, label=2), limit=10)
    assert memory.count() == {2: 3}


def test_within_a_class_the_uncertain_go_first():
    memory = BalancedMemory(size=4, classes=2)
    for name, uncertainty in [("sure", 0.1), ("unsure", 0.9), ("new", 0.2)]:
        memory.add(Observation(name, label=0, uncertainty=uncertainty), limit=10)
    assert {o.sample for o in memory.draw(4)} == {"sure", "new"}


def test_within_a_class_the_old_go_first():
    memory = BalancedMemory(size=4, classes=2)
    for index in range(10):
        memory.add(Observation(index, label=0, uncertainty=0.5), limit=10)
    assert {o.sample for o in memory.draw(4)} == {8, 9}


def test_a_draw_is_balanced_over_classes_and_leaves_the_memory_as_it_is():
    memory = BalancedMemory(size=40, classes=3)
    for index in range(60):
        memory.add(Observation(index, label=min(2, index // 20)), limit=10)
    assert Counter(o.label for o in memory.draw(9)) == {0: 3, 1: 3, 2: 3}
    assert len(memory) == 39


def test_a_full_memory_makes_room_in_its_largest_class():
    memory = BalancedMemory(size=4, classes=100)  # more classes than places: share of one
    for label in range(6):
        memory.add(Observation(label, label=label), limit=10)
    assert len(memory) == 4
    assert 5 in memory.count()


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1)), max_size=80), st.integers(2, 20))
def test_the_memory_never_exceeds_its_size(stream, size):
    memory = BalancedMemory(size=size, classes=3)
    for label, uncertainty in stream:
        memory.add(Observation(None, label=label, uncertainty=uncertainty), limit=10)
        assert len(memory) <= size
    drawn = memory.draw(10)
    assert len(drawn) == min(10, len(memory))
    assert len({id(o) for o in drawn}) == len(drawn)
