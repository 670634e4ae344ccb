# SPDX-License-Identifier: Apache-2.0
"""Validate and decode untrusted images."""

import hashlib
import io
import warnings
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageOps

from newfound_web.errors import PictureError

FORMATS = ("JPEG", "PNG", "WEBP")
WHITE = (255, 255, 255)


@dataclass(frozen=True)
class PictureLimits:
    """Limits of accepted files, and the size of stored images."""

    max_bytes: int = 8_000_000
    max_pixels: int = 40_000_000  # as the file declares, before anything is decoded
    min_side: int = 32  # pixels; smaller ones are icons and tracking pixels
    kept_side: int = 640  # pixels; larger ones are reduced to this


@dataclass(frozen=True)
class Picture:
    """A completely decoded image, without anything else from its file."""

    rgb: np.ndarray  # uint8 [height, width, 3]
    source_sha256: str  # of the bytes it came from

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.rgb.shape[1], self.rgb.shape[0]

    def jpeg(self, quality: int = 95) -> bytes:
        """Encode as a new JPEG file, without metadata or trailing bytes."""
        buffer = io.BytesIO()
        Image.fromarray(self.rgb).save(buffer, "JPEG", quality=quality)
        return buffer.getvalue()


def open_picture(data: bytes, limits: PictureLimits) -> Picture:
    """Decode a JPEG, PNG or WebP within the limits; anything else is a PictureError."""
    if len(data) > limits.max_bytes:
        raise PictureError(f"{len(data)} bytes, {limits.max_bytes} are allowed")
    if not data:
        raise PictureError("not a whole JPEG, PNG or WebP image (0 bytes)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about every odd file
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _check(image, limits)
                pixels = _decode(image, limits)
    except PictureError:
        raise
    # Pillow's plug-ins raise any exception on damaged files; all mean the same here.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise PictureError(f"not a whole JPEG, PNG or WebP image ({reason})") from None
    return Picture(pixels, hashlib.sha256(data).hexdigest())


def _check(image: Image.Image, limits: PictureLimits) -> None:
    """Check the header, before a pixel is decoded."""
    width, height = image.size
    if width * height > limits.max_pixels:
        raise PictureError(f"{width}x{height} pixels, {limits.max_pixels} are allowed")
    if min(width, height) < limits.min_side:
        raise PictureError(f"{width}x{height} pixels is too small to learn from")
    # Cameras write a second, small picture into a JPEG ("MPO"); that is not an animation.
    if image.format != "MPO" and getattr(image, "n_frames", 1) > 1:
        raise PictureError("an animation")
    if image.mode.startswith(("I", "F")):
        raise PictureError("values of more than eight bits, which is no photograph")


def _decode(image: Image.Image, limits: PictureLimits) -> np.ndarray:
    side = limits.kept_side
    image.draft("RGB", (side, side))  # JPEG only: decoded at a half, a quarter or an eighth
    image.load()  # raises if the file ends early
    upright = ImageOps.exif_transpose(image)
    upright.thumbnail((side, side), Image.Resampling.LANCZOS)
    if upright.has_transparency_data:
        upright = upright.convert("RGBA")
        backdrop = Image.new("RGBA", upright.size, (*WHITE, 255))
        upright = Image.alpha_composite(backdrop, upright)
    pixels = np.array(upright.convert("RGB"))
    pixels.setflags(write=False)
    return pixels
