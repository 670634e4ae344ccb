# SPDX-License-Identifier: Apache-2.0
import json

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from newfound_core.errors import ConfigError, DataError
from newfound_core.preprocessing import Preprocessing, default_preprocessing

LITE = Preprocessing(size=32, mean=(127, 127, 127), std=(128, 128, 128))


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def by_hand(image, preprocessing):
    """(x - mean) / std in double precision, on an image that needs no resizing."""
    mean, std = (np.array(v, dtype=np.float64) for v in (preprocessing.mean, preprocessing.std))
    return np.moveaxis((image.astype(np.float64) - mean) / std, 2, 0)


@pytest.mark.parametrize("preprocessing", [LITE, Preprocessing(size=32)])
def test_pixels_are_shifted_and_scaled_channel_by_channel(preprocessing):
    image = noise(32, 32)
    result = preprocessing(image)
    assert result.dtype == torch.float32
    assert result.is_contiguous()
    np.testing.assert_allclose(result.numpy(), by_hand(image, preprocessing), atol=2e-6)


def test_the_first_channel_is_red():
    red = np.zeros((32, 32, 3), np.uint8)
    red[..., 0] = 255
    assert LITE(red)[:, 0, 0].tolist() == [1.0, -127 / 128, -127 / 128]


def test_squash_keeps_the_whole_image():
    image = np.zeros((64, 128, 3), np.uint8)
    image[:, :64] = 255
    pixels = LITE.resized(image)
    assert (pixels[:, :16] == 255).all()
    assert (pixels[:, 16:] == 0).all()


def test_center_crop_keeps_the_middle_in_proportion():
    image = np.zeros((64, 128, 3), np.uint8)
    image[:, 32:96] = noise(64, 64)
    crop = Preprocessing(size=32, resize="short_side_center_crop")
    expected = cv2.resize(image[:, 32:96], (32, 32), interpolation=cv2.INTER_AREA)
    assert np.array_equal(crop.resized(image), expected)
    assert np.array_equal(crop.resized(np.swapaxes(image, 0, 1)), np.swapaxes(expected, 0, 1))


def test_auto_is_close_to_the_exact_average_on_a_camera_image():
    coarse = np.random.default_rng(0).uniform(0, 255, (30, 40, 3)).astype(np.float32)
    image = cv2.resize(coarse, (640, 480), interpolation=cv2.INTER_CUBIC).clip(0, 255)
    image = image.astype(np.uint8)
    auto = Preprocessing().resized(image).astype(int)
    area = Preprocessing(interpolation="area").resized(image).astype(int)
    assert np.abs(auto - area).mean() < 1.5


def test_shrinking_averages_so_that_noise_does_not_alias():
    checks = np.indices((96, 96)).sum(0) % 2 * 255
    image = np.repeat(checks[..., None], 3, axis=2).astype(np.uint8)
    assert LITE.resized(image).std() < 20
    assert Preprocessing(size=32, interpolation="nearest").resized(image).std() > 100


@settings(max_examples=50, deadline=None)
@given(
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    resize=st.sampled_from(["squash", "short_side_center_crop"]),
    interpolation=st.sampled_from(["auto", "linear", "area", "cubic", "nearest"]),
    seed=st.integers(0, 99),
)
def test_any_image_gives_the_same_bounded_tensor_alone_and_in_a_batch(
    height, width, resize, interpolation, seed
):
    preprocessing = Preprocessing(16, resize, (127,) * 3, (128,) * 3, interpolation)
    image = noise(height, width, seed)
    before = image.copy()
    result = preprocessing(image)
    assert result.shape == (3, 16, 16)
    assert result.abs().max() <= 1
    assert torch.equal(result, preprocessing(image))
    assert torch.equal(preprocessing.batch([noise(7, 9), image])[1], result)
    assert np.array_equal(image, before)


@pytest.mark.parametrize(
    "view",
    [
        lambda i: i[::-1, ::-1],
        lambda i: i[:, 3:35],
        lambda i: i[..., ::-1],
        lambda i: np.swapaxes(i, 0, 1),
        np.asfortranarray,
    ],
)
@pytest.mark.parametrize("size", [32, 40])
def test_a_view_counts_as_the_image_it_shows(view, size):
    image = view(noise(40, 40))
    preprocessing = Preprocessing(size=size)
    assert torch.equal(preprocessing(image), preprocessing(image.copy()))


def test_a_read_only_image_as_a_message_gives_it_is_fine():
    image = noise(48, 64)
    frozen = np.frombuffer(image.tobytes(), np.uint8).reshape(48, 64, 3)
    assert torch.equal(LITE(frozen), LITE(image))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (noise(8, 8).astype(np.float32), r"got float32 of shape \[8, 8, 3\]"),
        (noise(8, 8)[..., 0], r"got uint8 of shape \[8, 8\]"),
        (np.zeros((8, 8, 4), np.uint8), r"\[8, 8, 4\]"),
        (np.zeros((3, 8, 8), np.uint8), r"\[3, 8, 8\]"),
        (np.zeros((0, 8, 3), np.uint8), r"\[0, 8, 3\]"),
        (torch.zeros(8, 8, 3), "got Tensor"),
        (None, "got NoneType"),
    ],
)
def test_what_is_not_an_rgb_image_of_bytes_is_refused(image, message):
    for use in (LITE, lambda i: LITE.batch([i])):
        with pytest.raises(DataError, match=message):
            use(image)


def test_an_empty_batch_has_the_right_shape():
    assert LITE.batch([]).shape == (0, 3, 32, 32)


@given(
    size=st.integers(8, 4096),
    resize=st.sampled_from(["squash", "short_side_center_crop"]),
    mean=st.tuples(*[st.floats(-1e3, 1e3)] * 3),
    std=st.tuples(*[st.floats(1e-3, 1e3)] * 3),
)
def test_json_brings_it_back_exactly(size, resize, mean, std):
    preprocessing = Preprocessing(size, resize, mean, std)
    assert (
        Preprocessing.from_dict(json.loads(json.dumps(preprocessing.to_dict()))) == preprocessing
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 7}, "size"),
        ({"size": 224.0}, "size"),
        ({"size": True}, "size"),
        ({"size": None}, "size"),
        ({"resize": "crop"}, "resize"),
        ({"interpolation": "lanczos"}, "interpolation"),
        ({"mean": [1, 2]}, "mean must be three numbers"),
        ({"mean": "abc"}, "mean must be three numbers"),
        ({"mean": 127}, "mean must be three numbers"),
        ({"mean": [float("nan"), 1, 2]}, "mean must be finite"),
        ({"std": [0, 1, 1]}, "std must be positive"),
        ({"std": [-1, 1, 1]}, "std must be positive"),
        ({"gamma": 2.2}, r"unknown \['gamma'\]"),
    ],
)
def test_values_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        Preprocessing.from_dict(LITE.to_dict() | change)


def test_a_missing_key_is_refused_although_there_is_a_default():
    values = LITE.to_dict()
    del values["resize"]
    with pytest.raises(ConfigError, match=r"missing \['resize'\]"):
        Preprocessing.from_dict(values)
    with pytest.raises(ConfigError, match="table"):
        Preprocessing.from_dict(None)


@pytest.mark.parametrize(
    ("backbone", "mean", "std"),
    [
        ("efficientnet_lite0", 127, 128),
        ("resnet18", 0.485 * 255, 0.229 * 255),
        ("timm/efficientnet_b0", 0.485 * 255, 0.229 * 255),
        ("timm/vit_tiny_patch16_224", 127.5, 127.5),
    ],
)
def test_each_backbone_gets_what_its_weights_expect(backbone, mean, std):
    preprocessing = default_preprocessing(backbone, size=96)
    assert preprocessing.size == 96
    assert preprocessing.mean[0] == pytest.approx(mean)
    assert preprocessing.std[0] == pytest.approx(std)
