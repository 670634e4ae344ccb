# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.errors import ConfigError
from newfound_training.data.splits import split

LABELS = np.array([0] * 20 + [1] * 10 + [2] * 1)


def test_every_class_gives_its_share_and_keeps_at_least_one():
    training, validation = split(LABELS, 0.2, seed=3)
    assert np.bincount(LABELS[validation], minlength=3).tolist() == [4, 2, 0]
    assert sorted([*training, *validation]) == list(range(31))


def test_the_seed_decides():
    np.testing.assert_array_equal(split(LABELS, 0.2, 3)[1], split(LABELS, 0.2, 3)[1])
    assert not np.array_equal(split(LABELS, 0.2, 3)[1], split(LABELS, 0.2, 4)[1])


def test_nothing_is_held_out_if_nothing_is_asked_for():
    assert len(split(LABELS, 0.0, 0)[1]) == 0


def test_a_share_of_everything_is_refused():
    with pytest.raises(ConfigError):
        split(LABELS, 1.0, 0)
