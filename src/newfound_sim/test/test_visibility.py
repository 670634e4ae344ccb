# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import trimesh

from newfound_sim.lights import Dome
from newfound_sim.materials import Material
from newfound_sim.rendering import Part, Scene, View
from newfound_sim.visibility import outline_pixels, seen_objects, widened

# From the origin along +y, x to the right: at a distance of 2 the picture is 2 m wide.
AHEAD = View((0, 0, 0), (0, 1, 0), 100, 100, fov_degrees=2 * np.degrees(np.arctan(0.5)))
GREY = Material("diffuse", (0.5, 0.5, 0.5))


def sheet(x: float, y: float, width: float, height: float, number: int) -> Part:
    """A thin plate that faces the camera."""
    mesh = trimesh.creation.box((width, 1e-4, height))
    pose = np.eye(4)
    pose[:3, 3] = (x, y, 0)
    return Part(mesh, GREY, number, f"sheet{number}", pose)


def seen(*parts: Part):
    frame = Scene(parts, [Dome((1, 1, 1))]).render(AHEAD, samples=1, denoise=False)
    found = seen_objects(frame, AHEAD, {part.instance: [part] for part in parts})
    return {thing.instance: thing for thing in found}


def test_an_object_in_full_view_is_visible_as_a_whole():
    thing = seen(sheet(0, 2, 0.8, 0.4, 1))[1]
    assert thing.visible == 1.0
    assert thing.box == (30, 40, 40, 20), "0.8 m and 0.4 m at 50 pixels per metre"


def test_what_another_object_hides_is_missing():
    # The near sheet covers x from 0 to 0.4 m at distance 1, which is 0 to 0.8 m at distance 2.
    found = seen(sheet(0.2, 1, 0.4, 0.6, 1), sheet(0.0, 2, 0.8, 0.4, 2))
    assert found[1].visible == 1.0
    assert found[2].visible == pytest.approx(0.5, abs=0.03)


def test_what_the_border_cuts_off_is_missing():
    # Three quarters of its width are right of the border at x = 1 m.
    assert seen(sheet(1.2, 2, 0.8, 0.4, 1))[1].visible == pytest.approx(0.25, abs=0.03)


def test_a_widened_view_keeps_the_size_of_pixels():
    wide = widened(AHEAD)
    assert wide.intrinsics[0, 0] == pytest.approx(AHEAD.intrinsics[0, 0])
    assert outline_pixels([sheet(0, 2, 0.8, 0.4, 1)], wide) == 40 * 20
