# SPDX-License-Identifier: Apache-2.0
import pytest
from newfound_sim.backgrounds import table
from newfound_sim.errors import ScenarioError


def test_the_table_top_is_the_plane_of_the_objects():
    for background in ("white", "brown"):
        top = table(background)[0]
        assert top.mesh.bounds[1, 2] == pytest.approx(0)
        assert top.instance == 0


def test_white_is_bright_and_neutral_and_brown_is_darker_and_reddish():
    pictures = (table(name)[0].material.texture.image for name in ("white", "brown"))
    white, brown = (picture.mean(axis=(0, 1)) for picture in pictures)
    assert white.min() > 200
    assert white.max() - white.min() < 15
    assert brown[0] > brown[1] > brown[2]
    assert brown.max() < 170


def test_tables_differ_by_seed():
    first, second = (table("brown", seed)[0].material.texture.image for seed in (1, 2))
    assert (first != second).any()


def test_another_background_is_refused():
    with pytest.raises(ScenarioError, match="white, brown"):
        table("black")
