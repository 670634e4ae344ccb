# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from newfound_sim.annotations import (
    coco_annotations,
    coco_dataset,
    from_run_lengths,
    outline_pixels,
    run_lengths,
    seen_objects,
    widened,
)
from newfound_sim.lights import Dome
from newfound_sim.materials import Material
from newfound_sim.rendering import Frame, Part, Scene, View

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


@given(arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 7))))
def test_run_lengths_hold_every_mask(mask):
    rle = run_lengths(mask)
    assert sum(rle["counts"]) == mask.size
    np.testing.assert_array_equal(from_run_lengths(rle), mask)


def test_run_lengths_of_a_hand_worked_mask():
    mask = np.array([[0, 1], [0, 1], [1, 0]], bool)  # columns: 0 0 1 | 1 1 0
    assert run_lengths(mask) == {"size": [3, 2], "counts": [2, 3, 1]}
    assert run_lengths(~mask)["counts"] == [0, 2, 3, 1]


def test_annotations_carry_box_area_and_mask():
    instances = np.zeros((10, 12), np.uint16)
    instances[2:6, 3:8] = 1
    instances[9, 11] = 2  # one pixel: too little to be called seen
    frame = Frame(np.zeros((10, 12, 3)), np.ones((10, 12)), instances, {1: "mug", 2: "key"})
    (only,) = coco_annotations(frame)
    assert only["label"] == "mug"
    assert only["bbox"] == [3, 2, 5, 4]
    assert only["area"] == 20
    picture = {"file_name": "a.jpg", "width": 12, "height": 10, "annotations": [only]}
    document = coco_dataset(["key", "mug", "mallet"], [picture, picture])
    assert [a["image_id"] for a in document["annotations"]] == [1, 2]
    assert [a["id"] for a in document["annotations"]] == [1, 2]
    assert {a["category_id"] for a in document["annotations"]} == {2}
    assert document["categories"][2]["supercategory"] == "hammer"
