# SPDX-License-Identifier: Apache-2.0
"""Whatever the bytes are, the answer is a picture or a refusal."""

import hashlib
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from newfound_web.errors import PictureError
from newfound_web.pictures import PictureLimits, open_picture

LIMITS = PictureLimits(max_bytes=200_000, max_pixels=300_000, min_side=16, kept_side=64)


def file_of(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png_claiming(width, height, content=b""):
    """A PNG whose header claims a size that its few bytes do not hold."""

    def chunk(name, body):
        checksum = zlib.crc32(name + body)
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(content or bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels)
        + chunk(b"IEND", b"")
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_photo_is_decoded_reduced_and_remembered_by_its_source(photo, kind):
    data = photo(1, (120, 90), kind)
    picture = open_picture(data, LIMITS)
    assert picture.rgb.shape == (48, 64, 3)
    assert picture.source_sha256 == hashlib.sha256(data).hexdigest()
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB").resize((64, 48)), int)
    assert np.abs(picture.rgb.astype(int) - expected).mean() < 4


def test_the_file_made_here_holds_the_picture_and_nothing_else(photo):
    exif = Image.Exif()
    exif[0x010E] = "hidden words"
    data = photo(1, (64, 64), "JPEG", exif=exif, quality=95) + b"PK\x03\x04 a zip behind"
    assert b"hidden words" in data
    made = open_picture(data, LIMITS).jpeg()
    assert b"hidden words" not in made
    assert b"zip behind" not in made
    again = open_picture(made, LIMITS).rgb.astype(int)
    assert np.abs(again - open_picture(data, LIMITS).rgb).mean() < 3


def test_a_photo_taken_sideways_is_turned_upright(photo):
    exif = Image.Exif()
    exif[0x0112] = 6
    assert open_picture(photo(1, (60, 40), "JPEG", exif=exif), LIMITS).size == (40, 60)


def test_what_is_transparent_becomes_white():
    image = Image.new("RGBA", (32, 32), (200, 0, 0, 0))
    assert (open_picture(file_of(image, "PNG"), LIMITS).rgb == 255).all()
    palette = Image.new("P", (32, 32), 0)
    palette.putpalette([10, 20, 30])
    picture = open_picture(file_of(palette, "PNG", transparency=0), LIMITS)
    assert (picture.rgb == 255).all()


def test_a_camera_jpeg_with_a_preview_inside_is_a_photo(photo):
    first, second = (Image.open(io.BytesIO(photo(s))) for s in (1, 2))
    data = file_of(first, "MPO", save_all=True, append_images=[second])
    assert open_picture(data, LIMITS).size == (64, 53)


@pytest.mark.parametrize(
    "size", [(5000, 5000), (65_535, 65_535), (2**31 - 1, 2**31 - 1), (100_000, 16)]
)
def test_a_bomb_is_refused_by_its_header(size):
    with pytest.raises(PictureError):
        open_picture(png_claiming(*size), LIMITS)


def test_a_text_chunk_that_inflates_is_refused_or_skipped():
    body = b"Comment\x00\x00" + zlib.compress(bytes(50_000_000), 9)
    chunk = struct.pack(">I", len(body)) + b"zTXt" + body
    chunk += struct.pack(">I", zlib.crc32(b"zTXt" + body))
    plain = file_of(Image.new("RGB", (32, 32)), "PNG")
    with pytest.raises(PictureError):
        open_picture(plain[:33] + chunk + plain[33:], LIMITS)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_an_animation_is_refused(kind):
    frames = [Image.new("RGB", (32, 32), (v, 0, 0)) for v in (0, 100, 200)]
    data = file_of(frames[0], kind, save_all=True, append_images=frames[1:])
    with pytest.raises(PictureError, match="animation"):
        open_picture(data, LIMITS)


def test_of_no_image_at_all_it_says_so():
    with pytest.raises(PictureError, match=r"\(0 bytes\)$"):
        open_picture(b"", LIMITS)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.8, 0.95])
def test_half_an_image_is_refused(photo, kind, share):
    data = photo(3, (200, 150), kind)
    with pytest.raises(PictureError, match="not a whole"):
        open_picture(data[: int(share * len(data))], LIMITS)


@pytest.mark.parametrize(
    "kind", ["GIF", "BMP", "TIFF", "ICO", "PPM", "PDF", "EPS", "JPEG2000", "TGA"]
)
def test_other_formats_are_refused(kind):
    image = Image.new("RGB", (32, 32))
    with pytest.raises(PictureError, match="not a whole"):
        open_picture(file_of(image, kind), LIMITS)


@pytest.mark.parametrize(
    "data",
    [b"", b"<!doctype html><html>", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\xff\xd8\xff",
     b"RIFF\x00\x00\x00\x00WEBPVP8 ", b"%PDF-1.4"],
)  # fmt: skip
def test_what_is_no_image_is_refused(data):
    with pytest.raises(PictureError, match="not a whole"):
        open_picture(data, LIMITS)


def test_size_in_bytes_smallness_and_depth_are_limited(photo):
    with pytest.raises(PictureError, match="200000 are allowed"):
        open_picture(photo(1) + bytes(200_000), LIMITS)
    with pytest.raises(PictureError, match="too small"):
        open_picture(photo(1, (100, 10)), LIMITS)
    deep = Image.fromarray(np.zeros((32, 32), np.uint16))
    with pytest.raises(PictureError, match="eight bits"):
        open_picture(file_of(deep, "PNG"), LIMITS)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_file_gives_a_picture_or_a_refusal_and_nothing_else(data):
    kind = data.draw(st.sampled_from(["JPEG", "PNG", "WEBP"]))
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    damaged = bytearray(file_of(Image.fromarray(noise), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        picture = open_picture(bytes(damaged), LIMITS)
    except PictureError:
        return
    assert picture.rgb.dtype == np.uint8
    assert max(picture.size) <= LIMITS.kept_side
