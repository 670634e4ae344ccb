# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from newfound_core.augmentation import Augmentation
from newfound_core.errors import ConfigError, DataError
from newfound_core.preprocessing import Preprocessing

PREPROCESSING = Preprocessing(size=32, mean=(0, 0, 0), std=(1, 1, 1))
NOTHING = Augmentation((1, 1), (1, 1), 0, 0, 0, 0)


def noise(height=40, width=60, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def random(seed=0):
    return np.random.default_rng(seed)


def test_without_any_variation_it_is_the_preprocessing():
    image = noise(48, 48)
    assert torch.equal(NOTHING(image, PREPROCESSING, random()), PREPROCESSING(image))


def test_the_generator_decides_everything():
    image, augmentation = noise(), Augmentation()
    first = augmentation(image, PREPROCESSING, random(1))
    assert torch.equal(first, augmentation(image, PREPROCESSING, random(1)))
    assert not torch.equal(first, augmentation(image, PREPROCESSING, random(2)))


def test_a_mirror_image_is_mirrored():
    image = noise(32, 32)
    mirror = Augmentation((1, 1), (1, 1), 1, 0, 0, 0)
    expected = PREPROCESSING(image).flip(2)
    assert torch.equal(mirror(image, PREPROCESSING, random()), expected)


def test_half_of_the_images_are_mirrored():
    image = np.zeros((32, 32, 3), np.uint8)
    image[:, :16] = 255
    flip = Augmentation((1, 1), (1, 1), 0.5, 0, 0, 0)
    generator = random()
    share = np.mean([flip(image, PREPROCESSING, generator)[0, 0, 0] == 0 for _ in range(400)])
    assert 0.4 < share < 0.6


@settings(max_examples=100, deadline=None)
@given(
    height=st.integers(1, 70),
    width=st.integers(1, 70),
    low=st.floats(0.05, 1),
    seed=st.integers(0),
)
def test_a_crop_lies_in_the_image_and_is_no_larger_than_asked(height, width, low, seed):
    image = noise(height, width)
    crop = Augmentation(crop_area=(low, 1.0)).crop(image, random(seed))
    assert crop.base is not None
    assert np.may_share_memory(crop, image)
    assert 1 <= crop.shape[0] <= height
    assert 1 <= crop.shape[1] <= width


def test_crops_cover_the_areas_asked_for():
    generator, augmentation = random(), Augmentation(crop_area=(0.2, 0.6))
    image = noise(200, 200)
    areas = [np.prod(augmentation.crop(image, generator).shape[:2]) / 4e4 for _ in range(300)]
    assert 0.19 < min(areas) < 0.25
    assert 0.55 < max(areas) < 0.61


def test_brightness_multiplies():
    image = np.full((8, 8, 3), 100, np.uint8)
    only = Augmentation(brightness=0.5, contrast=0, saturation=0)
    values = {int(only.jitter(image, random(seed))[0, 0, 0]) for seed in range(200)}
    assert 50 <= min(values) < 60
    assert 140 < max(values) <= 150


def test_contrast_keeps_the_mean_grey_and_changes_the_spread():
    image = noise(64, 64) // 4 + 96  # far from 0 and 255, so nothing is cut
    only = Augmentation(brightness=0, contrast=0.5, saturation=0)
    spreads = []
    for seed in range(50):
        result = only.jitter(image, random(seed)).astype(float)
        assert result.mean() == pytest.approx(image.mean(), abs=0.5)
        spreads.append(result.std() / image.std())
    assert min(spreads) < 0.6
    assert max(spreads) > 1.4


def test_saturation_leaves_grey_alone_and_keeps_luma():
    luma = np.array([0.299, 0.587, 0.114])
    only = Augmentation(brightness=0, contrast=0, saturation=0.5)
    grey = np.repeat(noise()[..., :1], 3, axis=2)
    assert np.abs(only.jitter(grey, random()).astype(int) - grey).max() <= 1
    colour = np.broadcast_to(np.array([140, 110, 90], np.uint8), (8, 8, 3))
    result = only.jitter(colour, random(3))[0, 0]
    assert result @ luma == pytest.approx(colour[0, 0] @ luma, abs=1)
    assert not np.array_equal(result, colour[0, 0])


@pytest.mark.parametrize(
    "options",
    [
        {"crop_area": (0, 1)},
        {"crop_area": (0.5, 1.5)},
        {"crop_area": (0.9, 0.5)},
        {"crop_ratio": (0, 1)},
        {"mirror": 1.5},
        {"brightness": -0.1},
        {"contrast": 2},
        {"saturation": float("nan")},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        Augmentation(**options)


def test_what_is_not_an_image_is_refused():
    with pytest.raises(DataError, match="float64"):
        Augmentation()(np.zeros((8, 8, 3)), PREPROCESSING, random())
