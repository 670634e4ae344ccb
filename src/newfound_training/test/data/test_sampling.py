# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest

from newfound_core.errors import ConfigError, DataError
from newfound_training.data.sampling import Shuffled, image_generator, share_of, split

LABELS = np.array([0] * 20 + [1] * 10 + [2] * 1)


def test_every_class_gives_its_share_and_keeps_at_least_one():
    training, validation = split(LABELS, 0.2, seed=3)
    assert np.bincount(LABELS[validation], minlength=3).tolist() == [4, 2, 0]
    assert sorted([*training, *validation]) == list(range(31))


def test_a_group_is_never_divided():
    labels = np.repeat([0, 1], 60)
    groups = [f"video{i // 6}" for i in range(120)]
    training, validation = split(labels, 0.2, 3, groups)
    assert sorted([*training, *validation]) == list(range(120))
    assert not {groups[i] for i in training} & {groups[i] for i in validation}
    assert np.bincount(labels[validation]).tolist() == [12, 12]


def test_a_group_of_several_classes_stays_whole_as_well():
    labels = np.tile([0, 0, 0, 1], 25)
    groups = [f"walk{i // 10}" for i in range(100)]
    training, validation = split(labels, 0.2, 0, groups)
    assert not {groups[i] for i in training} & {groups[i] for i in validation}
    assert 0.1 < len(validation) / 100 < 0.3
    assert set(labels[validation]) == {0, 1}


def test_of_uneven_groups_those_are_held_out_that_come_near_the_share():
    groups = ["long"] * 80 + ["short"] * 12 + ["shorter"] * 8
    for seed in range(10):
        _, validation = split(np.zeros(100, int), 0.1, seed, groups)
        assert {groups[i] for i in validation} in ({"short"}, {"shorter"})


def test_of_large_groups_the_smallest_is_more_than_the_share():
    groups = ["a"] * 40 + ["b"] * 60
    for seed in range(10):
        assert len(split(np.zeros(100, int), 0.1, seed, groups)[1]) in (40, 60)


def test_nothing_is_held_out_of_a_single_group():
    labels = np.array([0] * 8 + [1] * 8)
    _, validation = split(labels, 0.25, 0, ["one video"] * 8 + [""] * 8)
    assert (labels[validation] == 1).all()
    assert len(validation) == 2


def test_a_group_stays_if_a_class_would_have_no_other_images():
    labels = np.array([0] * 9 + [1] + [0] * 10)
    groups = ["with the only image of 1"] * 10 + ["other"] * 10
    _, validation = split(labels, 0.5, 1, groups)
    assert validation.tolist() == list(range(10, 20))


def test_images_without_groups_are_held_out_as_they_always_were():
    """The numbers of docs/results.md are of this division."""
    _, validation = split(LABELS, 0.2, seed=3)
    generator = np.random.default_rng([3, 1])
    drawn = [generator.permutation(np.flatnonzero(c == LABELS)) for c in range(3)]
    assert validation.tolist() == sorted([*drawn[0][:4], *drawn[1][:2]])


def test_the_seed_decides():
    np.testing.assert_array_equal(split(LABELS, 0.2, 3)[1], split(LABELS, 0.2, 3)[1])
    assert not np.array_equal(split(LABELS, 0.2, 3)[1], split(LABELS, 0.2, 4)[1])


def test_nothing_is_held_out_if_nothing_is_asked_for():
    assert len(split(LABELS, 0.0, 0)[1]) == 0


def test_a_share_of_everything_is_refused():
    with pytest.raises(ConfigError):
        split(LABELS, 1.0, 0)


def test_an_epoch_shows_every_image_once():
    order = Shuffled(count=10, batch_size=4, seed=0)
    seen = np.concatenate([order(step) for step in range(5)])  # two epochs
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert not np.array_equal(seen[:10], seen[10:])


def test_a_batch_is_a_function_of_seed_and_step():
    np.testing.assert_array_equal(Shuffled(50, 8, 1)(7), Shuffled(50, 8, 1)(7))
    assert not np.array_equal(Shuffled(50, 8, 1)(7), Shuffled(50, 8, 2)(7))


def test_a_batch_may_be_larger_than_the_set():
    assert sorted(Shuffled(3, 6, 0)(0)) == [0, 0, 1, 1, 2, 2]


def test_processes_share_a_batch_without_overlap():
    batch = Shuffled(50, 8, 0)(3)
    parts = [share_of(batch, rank, 2) for rank in range(2)]
    assert sorted(np.concatenate(parts)) == sorted(batch)


def test_a_batch_that_cannot_be_shared_equally_is_refused():
    with pytest.raises(ConfigError, match="9 images cannot be shared by 2"):
        share_of(np.arange(9), 0, 2)


def test_each_image_of_each_step_has_randomness_of_its_own():
    values = {float(image_generator(0, s, p).random()) for s in range(3) for p in range(3)}
    assert len(values) == 9


def test_no_images_and_empty_batches_are_refused():
    with pytest.raises(DataError):
        Shuffled(0, 4, 0)
    with pytest.raises(ConfigError):
        Shuffled(4, 0, 0)
