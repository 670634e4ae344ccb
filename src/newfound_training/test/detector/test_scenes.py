# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest

from newfound_core.errors import ConfigError
from newfound_training.detector.coco import Picture, decoded
from newfound_training.detector.scenes import (
    SceneSampler,
    Variation,
    cropped,
    cut_out,
    paste,
    resized,
    zoomed_out,
)

PLAIN = {"crop_probability": 0.0, "zoom_out": 0.0, "paste_probability": 0.0, "jitter": 0.0}


def bright(pixels):
    """The box around what is bright."""
    rows, columns = np.nonzero(pixels.mean(2) > 128)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


@pytest.fixture
def scene():
    pixels = np.zeros((60, 80, 3), np.uint8)
    pixels[20:40, 30:60] = 255
    return pixels, np.array([[30, 20, 60, 40]], np.float32)


@pytest.mark.parametrize("vary", [
    lambda s, g: cropped(s, Variation(64, crop_area=0.5), g),
    zoomed_out,
    lambda s, g: resized(s, 64),
])  # fmt: skip
def test_boxes_follow_their_objects(scene, vary):
    for seed in range(10):
        pixels, boxes = vary(scene, np.random.default_rng(seed))
        assert np.abs(boxes[0] - bright(pixels)).max() <= 1.0


def test_an_object_that_is_mostly_cut_off_is_dropped(scene):
    pixels, boxes = scene
    small = Variation(64, crop_area=0.02)
    counts = set()
    for seed in range(40):
        part, left = cropped((pixels, boxes), small, np.random.default_rng(seed))
        counts.add(len(left))
        if len(left):
            assert left[0, 2] - left[0, 0] <= part.shape[1]
    assert counts == {0, 1}


def test_a_pasted_object_brings_its_box_and_hides_what_is_below(scene):
    new, solid = np.full((30, 40, 3), 99, np.uint8), np.ones((30, 40), bool)
    hidden = visible = 0
    for seed in range(20):
        pixels, boxes = paste(scene, new, solid, np.random.default_rng(seed))
        left, top, right, bottom = boxes[-1].astype(int)
        assert (right - left, bottom - top) == (40, 30)
        assert (pixels[top + 2 : bottom - 2, left + 2 : right - 2] == 99).all()
        hidden, visible = hidden + (len(boxes) == 1), visible + (len(boxes) == 2)
    assert hidden
    assert visible
    assert scene[0].max() == 255  # the scene itself is as it was


@pytest.fixture
def pictures(tmp_path, scene):
    pixels, boxes = scene
    cv2.imwrite(str(tmp_path / "a.png"), pixels)
    triangle = [[30.0, 20, 59, 20, 30, 39]]
    return [Picture(tmp_path / "a.png", boxes, ("a",), (triangle,))]


def test_an_object_is_cut_out_along_its_outline(pictures):
    pixels, mask = cut_out(pictures[0], 0)
    assert pixels.shape == (20, 30, 3)
    assert mask[0].all()
    assert mask[-1].sum() <= 2
    assert cut_out(Picture(pictures[0].path, pictures[0].boxes, ("a",), (None,)), 0) is None


def test_run_lengths_and_polygons_are_decoded():
    mask = decoded({"size": [3, 4], "counts": [1, 2, 4, 3, 2]}, (3, 4))
    assert mask.astype(int).tolist() == [[0, 0, 0, 1], [1, 0, 1, 0], [1, 0, 1, 0]]
    square = decoded([[1, 1, 3, 1, 3, 2, 1, 2]], (4, 5))
    assert square.sum() == 6


def test_a_variant_follows_from_its_generator(pictures):
    sampler = SceneSampler(pictures, Variation(48, paste_probability=1.0))
    one, same = (sampler(0, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(one[0], same[0])
    assert np.array_equal(one[1], same[1])
    assert one[0].shape == (48, 48, 3)
    plain = SceneSampler(pictures, Variation(48, **PLAIN))(0, np.random.default_rng(0))
    assert np.abs(plain[1][0] - bright(plain[0])).max() <= 1.0


def test_impossible_variations_are_refused():
    for wrong in ({"crop_area": 0.0}, {"stretch": 0.5}, {"max_pasted": -1}):
        with pytest.raises(ConfigError):
            Variation(64, **wrong)
