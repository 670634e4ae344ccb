# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_sim.rooms import surfaces

OAK = (0.5, 0.35, 0.2)
PAINTED = {
    "wood": lambda: surfaces.wood(OAK, 1),
    "planks": lambda: surfaces.planks(OAK),
    "parquet": lambda: surfaces.parquet(OAK),
    "speckled": lambda: surfaces.speckled(OAK),
}


@pytest.mark.parametrize("name", PAINTED)
def test_a_painted_surface_has_about_the_colour_asked_for(name):
    image = PAINTED[name]().texture.image
    mean = image.reshape(-1, 3).mean(axis=0) / 255
    np.testing.assert_allclose(mean, OAK, atol=0.06)
    assert image.std() > 2


def test_the_same_arguments_give_the_same_object():
    assert surfaces.tiles((0.9, 0.9, 0.9), edge=0.1) is surfaces.tiles((0.9, 0.9, 0.9), edge=0.1)
    assert surfaces.wood(OAK, 1) is not surfaces.wood(OAK, 2)


def test_tiles_repeat_after_four_edges():
    assert surfaces.tiles((0.9, 0.9, 0.9), edge=0.15).texture.repeat == pytest.approx(0.6)


@pytest.mark.parametrize("name", ["wood", "speckled"])
def test_textures_repeat_without_a_seam(name):
    image = PAINTED[name]().texture.image.astype(float)
    inside = np.abs(np.diff(image, axis=1)).mean()
    seam = np.abs(image[:, 0] - image[:, -1]).mean()
    assert seam < 2.5 * inside
