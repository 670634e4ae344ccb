# SPDX-License-Identifier: Apache-2.0
import array
import io
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as PillowImage
from sensor_msgs.msg import CompressedImage, Image

from newfound_runtime import images
from newfound_runtime.images import ImageError

RNG = np.random.default_rng(7)
RGB = RNG.integers(0, 256, (6, 8, 3), np.uint8)
# Large flat patches survive chroma subsampling and demosaicing.
PATCHES = np.zeros((16, 16, 3), np.uint8)
PATCHES[:, :8], PATCHES[:, 8:] = (200, 30, 40), (20, 60, 210)


HAS_CV_BRIDGE = images.CvBridge is not None


@pytest.fixture(params=["own", "cv_bridge"] if HAS_CV_BRIDGE else ["own"], autouse=True)
def converter(request, monkeypatch):
    """Every test of this file holds with cv_bridge, where it is installed, and without."""
    if request.param == "own":
        monkeypatch.setattr(images, "CvBridge", None)


@pytest.mark.skipif(not HAS_CV_BRIDGE, reason="cv_bridge comes only with a ROS installation")
def test_cv_bridge_is_used_where_it_is_installed(converter, request):
    assert (images.CvBridge is not None) == ("cv_bridge]" in request.node.name)


def message(
    pixels: np.ndarray, encoding: str, padding: int = 0, big_endian: bool = False
) -> Image:
    rows = pixels.reshape(pixels.shape[0], -1)
    raw = np.ascontiguousarray(rows.byteswap() if big_endian else rows).view(np.uint8)
    padded = np.pad(raw, ((0, 0), (0, padding)))
    result = Image(height=pixels.shape[0], width=pixels.shape[1], encoding=encoding)
    result.step, result.is_bigendian = padded.shape[1], big_endian
    result.data = array.array("B", padded.tobytes())
    return result


def bayer(rgb: np.ndarray, pattern: str) -> np.ndarray:
    """What a sensor with this colour filter would see of the image."""
    mosaic = np.zeros(rgb.shape[:2], rgb.dtype)
    for index, colour in enumerate(pattern):
        y, x = divmod(index, 2)
        mosaic[y::2, x::2] = rgb[y::2, x::2, "rgb".index(colour)]
    return mosaic


def yuv422(rgb: np.ndarray, order: str) -> np.ndarray:
    """BT.601, studio range, as cameras send it; two pixels share one chroma pair."""
    r, g, b = (rgb[..., i] / 255 for i in range(3))
    luma = 16 + 65.481 * r + 128.553 * g + 24.966 * b
    u = 128 - 37.797 * r - 74.203 * g + 112 * b
    v = 128 + 112 * r - 93.786 * g - 18.214 * b
    chroma = np.where(np.arange(rgb.shape[1]) % 2 == 0, u, v)
    pair = (chroma, luma) if order == "uyvy" else (luma, chroma)
    return np.rint(np.stack(pair, axis=-1)).astype(np.uint8)


def test_rgb8_is_a_view_without_a_copy():
    original = message(RGB, "rgb8")
    pixels = images.to_rgb(original)
    assert np.array_equal(pixels, RGB)
    assert np.shares_memory(pixels, np.frombuffer(original.data, np.uint8))


@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize(
    ("encoding", "stored"),
    [
        ("rgb8", RGB),
        ("bgr8", RGB[..., ::-1]),
        ("rgba8", np.dstack([RGB, np.full((6, 8), 9, np.uint8)])),
        ("bgra8", np.dstack([RGB[..., ::-1], np.full((6, 8), 9, np.uint8)])),
    ],
)
def test_colour_encodings_give_the_same_rgb(encoding, stored, padding):
    assert np.array_equal(images.to_rgb(message(stored, encoding, padding)), RGB)


@pytest.mark.parametrize("encoding", ["mono8", "8UC1"])
def test_grey_becomes_three_equal_channels(encoding):
    grey = RGB[..., 0]
    result = images.to_rgb(message(grey, encoding, padding=3))
    assert np.array_equal(result, np.dstack([grey] * 3))


@pytest.mark.parametrize("big_endian", [False, True])
def test_sixteen_bit_grey_is_scaled_to_eight(big_endian):
    grey = (RGB[..., 0].astype(np.uint16) << 8) + 77
    result = images.to_rgb(message(grey, "mono16", big_endian=big_endian))
    assert np.abs(result[..., 0].astype(int) - RGB[..., 0]).max() <= 1


@pytest.mark.parametrize("encoding", ["yuv422", "uyvy", "yuv422_yuy2", "yuyv"])
def test_yuv_encodings_give_the_colours_back(encoding):
    order = "uyvy" if encoding in ("yuv422", "uyvy") else "yuyv"
    result = images.to_rgb(message(yuv422(PATCHES, order), encoding))
    for half in (np.s_[2:14, 2:6], np.s_[2:14, 10:14]):
        assert np.abs(result[half].astype(int) - PATCHES[half].astype(int)).max() <= 3


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_bayer_patterns_give_the_colours_back(pattern, bits):
    mosaic = bayer(PATCHES, pattern)
    if bits == 16:
        mosaic = mosaic.astype(np.uint16) << 8
    result = images.to_rgb(message(mosaic, f"bayer_{pattern}{bits}"))
    for half in (np.s_[2:14, 2:6], np.s_[2:14, 10:14]):
        assert np.abs(result[half].astype(int) - PATCHES[half].astype(int)).max() <= 1


def test_depth_in_millimetres_and_in_metres_becomes_metres():
    millimetres = np.array([[0, 1500], [65535, 1]], np.uint16)
    metres = np.array([[np.nan, 1.5], [0.0, 65.5]], np.float32)
    assert np.allclose(images.to_depth(message(millimetres, "16UC1")), millimetres / 1000)
    assert np.array_equal(images.to_depth(message(metres, "32FC1")), metres, equal_nan=True)


def test_depth_is_refused_as_colour_and_colour_as_depth():
    with pytest.raises(ImageError, match="16UC1 holds depth"):
        images.to_rgb(message(np.zeros((2, 2), np.uint16), "16UC1"))
    with pytest.raises(ImageError, match="rgb8 is not a depth encoding"):
        images.to_depth(message(RGB, "rgb8"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"height": 0}, "empty"),
        ({"width": 0}, "empty"),
        ({"height": 2**32 - 1, "width": 2**32 - 1}, "more than"),
        ({"step": 3}, "step is 3"),
        ({"height": 7}, "bytes"),
        ({"encoding": "jpeg2000"}, "unknown encoding"),
        ({"encoding": ""}, "unknown encoding"),
    ],
)
def test_a_message_that_lies_is_refused_with_the_reason(change, reason):
    lying = message(RGB, "rgb8")
    for field, value in change.items():
        setattr(lying, field, value)
    with pytest.raises(ImageError, match=reason):
        images.to_rgb(lying)


def compressed(rgb: np.ndarray, kind: str) -> CompressedImage:
    buffer = io.BytesIO()
    PillowImage.fromarray(rgb).save(buffer, kind, quality=95)
    result = CompressedImage(format=f"rgb8; {kind.lower()} compressed bgr8")
    result.data = array.array("B", buffer.getvalue())
    return result


def test_png_is_exact_and_jpeg_is_close():
    assert np.array_equal(images.decode(compressed(RGB, "PNG")), RGB)
    difference = images.decode(compressed(PATCHES, "JPEG")).astype(int) - PATCHES
    assert np.abs(difference).mean() < 6


def test_a_truncated_jpeg_is_refused_rather_than_half_grey():
    whole = compressed(RNG.integers(0, 256, (64, 64, 3), np.uint8), "JPEG")
    whole.data = whole.data[: len(whole.data) // 2]
    with pytest.raises(ImageError, match="decoded"):
        images.decode(whole)


def test_a_small_file_that_claims_a_huge_image_is_refused_before_decoding():
    bomb = compressed(np.zeros((1, 1, 3), np.uint8), "PNG")
    header = bytearray(bomb.data.tobytes())
    header[16:24] = (60000).to_bytes(4, "big") * 2
    header[29:33] = zlib.crc32(header[12:29]).to_bytes(4, "big")
    bomb.data = array.array("B", bytes(header))
    with pytest.raises(ImageError, match=r"more than|decoded"):
        images.decode(bomb)


def test_compressed_depth_is_refused():
    with pytest.raises(ImageError, match="compressedDepth"):
        images.decode(CompressedImage(format="16UC1; compressedDepth png"))


ENCODINGS = st.sampled_from(
    [*images._LAYOUTS, "", "rgb16", "RGB8", "bayer", "nv12", "\N{SNOWMAN}"]
)
SIZES = st.one_of(st.integers(0, 40), st.sampled_from([2**16, 2**31, 2**32 - 1]))


@settings(max_examples=300, deadline=None)
@given(
    encoding=ENCODINGS, width=SIZES, height=SIZES, step=SIZES, data=st.binary(max_size=4000),
    big_endian=st.booleans(),
)  # fmt: skip
def test_any_image_message_becomes_pixels_or_an_image_error(
    encoding, width, height, step, data, big_endian
):
    fuzzed = Image(width=width, height=height, step=step, encoding=encoding)
    fuzzed.is_bigendian, fuzzed.data = big_endian, array.array("B", data)
    try:
        pixels = images.to_rgb(fuzzed)
    except ImageError:
        return
    assert pixels.shape == (height, width, 3)
    assert pixels.dtype == np.uint8


JPEG = compressed(RGB, "JPEG").data.tobytes()
PNG = compressed(RGB, "PNG").data.tobytes()


@settings(max_examples=300, deadline=None)
@given(
    whole=st.sampled_from([JPEG, PNG]),
    cut=st.integers(0, 700),
    flips=st.lists(st.tuples(st.integers(0, 699), st.integers(0, 255)), max_size=8),
)
def test_any_damage_to_a_compressed_image_gives_pixels_or_an_image_error(whole, cut, flips):
    damaged = bytearray(whole[: len(whole) - cut % len(whole)] if cut else whole)
    for place, value in flips:
        damaged[place % len(damaged)] = value
    try:
        pixels = images.decode(CompressedImage(data=array.array("B", bytes(damaged))))
    except ImageError:
        return
    assert pixels.ndim == 3
    assert pixels.dtype == np.uint8
