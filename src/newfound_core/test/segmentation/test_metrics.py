# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest

from newfound_core.errors import ConfigError, DataError
from newfound_core.segmentation.label_image import (
    check_labels,
    mapping,
    read_label_image,
    resized_labels,
)
from newfound_core.segmentation.metrics import Confusion, step_metrics


def test_iou_is_intersection_over_union_of_labelled_pixels():
    generator = np.random.default_rng(0)
    truth = generator.choice([0, 1, 2, 255], size=(40, 30)).astype(np.uint8)
    predicted = generator.integers(0, 3, (40, 30)).astype(np.uint8)
    confusion = Confusion(3)
    confusion.add(truth[:20], predicted[:20])
    confusion.add(truth[20:], predicted[20:])
    for c in range(3):
        a, b = (truth == c), (predicted == c) & (truth != 255)
        assert confusion.iou()[c] == pytest.approx((a & b).sum() / (a | b).sum())


def test_a_class_without_true_pixels_is_left_out_and_the_background_stands_apart():
    confusion = Confusion(5)
    truth = np.array([[0, 0, 1, 2, 3, 3]], np.uint8)
    confusion.add(truth, np.array([[0, 1, 1, 2, 3, 0]], np.uint8))
    found = step_metrics(confusion, old=3, classes=5)
    assert np.isnan(confusion.iou()[4])
    assert found["old"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["new"] == pytest.approx(1 / 2)
    assert found["all"] == pytest.approx((1 / 2 + 1 + 1 / 2) / 3)
    assert found["background"] == pytest.approx(1 / 3)


def test_a_rejected_pixel_is_missed_and_takes_nothing_from_others():
    confusion = Confusion(2)
    confusion.add(np.array([[1, 1]], np.uint8), np.array([[1, 255]], np.uint8))
    assert confusion.iou()[1] == 0.5
    assert np.isnan(confusion.mean_iou([0]))


def test_masks_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="does not fit"):
        Confusion(2).add(np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.uint8))
    with pytest.raises(DataError, match="outside of the 2"):
        Confusion(2).add(np.full((2, 2), 7, np.uint8), np.zeros((2, 2), np.uint8))


def test_label_images_meet_by_names():
    table = mapping(
        ["sky", "wall", "void", "door"], ["background", "door", "wall"], ignored=["void"]
    )
    labels = np.array([[0, 1, 2, 3, 255]], np.uint8)
    assert table[labels].tolist() == [[0, 2, 255, 1, 255]]


def test_labels_are_resized_without_mixing_classes():
    labels = np.zeros((8, 8), np.uint8)
    labels[:, 4:] = 200
    assert set(np.unique(resized_labels(labels, (13, 5)))) == {0, 200}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["wall"], "must be 'background'"),
        ([], "must be 'background'"),
        (["background", "a", "a"], "different"),
        (["background", *map(str, range(255))], "at most 255"),
    ],
)
def test_names_of_classes_are_checked(labels, message):
    with pytest.raises(ConfigError, match=message):
        check_labels(labels)


def test_a_label_image_with_a_palette_is_read_by_its_numbers(tmp_path):
    from PIL import Image

    image = Image.fromarray(np.array([[0, 1], [2, 255]], np.uint8), "P")
    image.putpalette([200, 100, 50] * 256)
    image.save(tmp_path / "a.png")
    assert read_label_image(tmp_path / "a.png", 3).tolist() == [[0, 1], [2, 255]]
    with pytest.raises(DataError, match=r"a\.png: 1 pixels are labelled 2 or more, but .* 2 cl"):
        read_label_image(tmp_path / "a.png", 2)


def test_a_picture_or_a_broken_file_is_no_label_image(tmp_path):
    from PIL import Image

    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(tmp_path / "rgb.png")
    Image.fromarray(np.zeros((2, 2), np.uint16)).save(tmp_path / "deep.png")
    Image.new("1", (20_000, 20_000)).save(tmp_path / "huge.png")
    (tmp_path / "broken.png").write_bytes(b"no")
    with pytest.raises(DataError, match=r"pixels of mode RGB, .* 8 bits a pixel"):
        read_label_image(tmp_path / "rgb.png", 2)
    with pytest.raises(DataError, match=r"pixels of mode I;16, .* 8 bits a pixel"):
        read_label_image(tmp_path / "deep.png", 2)
    with pytest.raises(DataError, match="400000000 pixels"):
        read_label_image(tmp_path / "huge.png", 2)
    with pytest.raises(DataError, match="cannot be read"):
        read_label_image(tmp_path / "broken.png", 2)
