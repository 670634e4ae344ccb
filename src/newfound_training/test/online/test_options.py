# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError, DataError
from newfound_training.data import open_images
from newfound_training.online.options import (
    OnlineOptions,
    chosen_pairs,
    refuse_other_dial_pairs,
)


def test_all_ordered_pairs_are_the_default(tree):
    assert chosen_pairs(OnlineOptions(), open_images(tree), open_images(tree)) == [
        ("bright", "dark"),
        ("dark", "bright"),
    ]


def test_pairs_are_checked(tree):
    images = open_images(tree)
    with pytest.raises(ConfigError, match="source:target"):
        chosen_pairs(OnlineOptions(pairs=("bright",)), images, images)
    with pytest.raises(DataError, match="no domain 'dusk'"):
        chosen_pairs(OnlineOptions(pairs=("bright:dusk",)), images, images)
    with pytest.raises(ConfigError, match="name the pairs"):
        chosen_pairs(OnlineOptions(checkpoint="x"), images, images)
    given = OnlineOptions(checkpoint="x", pairs=("elsewhere:dark",))
    assert chosen_pairs(given, images, images) == [("elsewhere", "dark")]


@pytest.mark.parametrize("dial", ["brigth:dark", "dark:bright", "bright"])
def test_two_domain_training_of_a_pair_that_is_not_in_the_table_is_refused(dial):
    refuse_other_dial_pairs(OnlineOptions(dial=("bright:dark",)), [("bright", "dark")])
    with pytest.raises(ConfigError, match=f"'{dial}', but the pairs of the table are bright:dark"):
        refuse_other_dial_pairs(OnlineOptions(dial=(dial,)), [("bright", "dark")])


@pytest.mark.parametrize(
    "wrong",
    [{"orders": 0}, {"estimators": ()}, {"momentum": 0.0}, {"sweep_frames": (1,)}],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigError):
        OnlineOptions(**wrong)
