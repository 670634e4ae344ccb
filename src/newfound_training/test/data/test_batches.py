# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.errors import ConfigError, DataError
from newfound_training.data.batches import Shuffled, image_generator, share_of


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
