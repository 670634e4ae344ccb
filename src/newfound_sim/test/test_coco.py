# SPDX-License-Identifier: Apache-2.0
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from newfound_sim.coco import annotations, dataset, from_run_lengths, run_lengths
from newfound_sim.rendering import Frame


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
    (only,) = annotations(frame)
    assert only["label"] == "mug"
    assert only["bbox"] == [3, 2, 5, 4]
    assert only["area"] == 20
    picture = {"file_name": "a.jpg", "width": 12, "height": 10, "annotations": [only]}
    document = dataset(["key", "mug", "mallet"], [picture, picture])
    assert [a["image_id"] for a in document["annotations"]] == [1, 2]
    assert [a["id"] for a in document["annotations"]] == [1, 2]
    assert {a["category_id"] for a in document["annotations"]} == {2}
    assert document["categories"][2]["supercategory"] == "hammer"
