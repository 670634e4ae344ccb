# SPDX-License-Identifier: Apache-2.0
"""From image messages to arrays, without a copy where the encoding allows it.

Uses `cv_bridge` for the colour conversions where it is installed and OpenCV directly
elsewhere; both give the same pixels. What a message claims is checked here first, because
neither of them survives every lie.
"""

import array
import io
import struct
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from PIL import Image as PillowImage
from sensor_msgs.msg import CompressedImage, Image

try:
    from cv_bridge import CvBridge
except ImportError:
    CvBridge = None

JPEG_QUALITY = 80  # of what people look at
MAX_PIXELS = 64_000_000  # above this a size is taken for garbage, not for a camera

# encoding: bytes of one channel value, channels as stored, dtype
_LAYOUTS: dict[str, tuple[int, str]] = {
    "rgb8": (3, "u1"), "bgr8": (3, "u1"), "rgba8": (4, "u1"), "bgra8": (4, "u1"),
    "8UC1": (1, "u1"), "8UC3": (3, "u1"), "8UC4": (4, "u1"),
    "mono8": (1, "u1"), "mono16": (1, "u2"),
    "16UC1": (1, "u2"), "32FC1": (1, "f4"),
    "yuv422": (2, "u1"), "uyvy": (2, "u1"), "yuv422_yuy2": (2, "u1"), "yuyv": (2, "u1"),
    "bayer_rggb8": (1, "u1"), "bayer_bggr8": (1, "u1"),
    "bayer_gbrg8": (1, "u1"), "bayer_grbg8": (1, "u1"),
    "bayer_rggb16": (1, "u2"), "bayer_bggr16": (1, "u2"),
    "bayer_gbrg16": (1, "u2"), "bayer_grbg16": (1, "u2"),
}  # fmt: skip

# OpenCV names a Bayer pattern by its second row, ROS by its first: rggb is OpenCV's BG.
_TO_RGB: dict[str, int] = {
    "bgr8": cv2.COLOR_BGR2RGB, "rgba8": cv2.COLOR_RGBA2RGB, "bgra8": cv2.COLOR_BGRA2RGB,
    "mono8": cv2.COLOR_GRAY2RGB, "mono16": cv2.COLOR_GRAY2RGB,
    "yuv422": cv2.COLOR_YUV2RGB_UYVY, "uyvy": cv2.COLOR_YUV2RGB_UYVY,
    "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUY2, "yuyv": cv2.COLOR_YUV2RGB_YUY2,
    "bayer_rggb8": cv2.COLOR_BayerBG2RGB, "bayer_rggb16": cv2.COLOR_BayerBG2RGB,
    "bayer_bggr8": cv2.COLOR_BayerRG2RGB, "bayer_bggr16": cv2.COLOR_BayerRG2RGB,
    "bayer_gbrg8": cv2.COLOR_BayerGR2RGB, "bayer_gbrg16": cv2.COLOR_BayerGR2RGB,
    "bayer_grbg8": cv2.COLOR_BayerGB2RGB, "bayer_grbg16": cv2.COLOR_BayerGB2RGB,
}  # fmt: skip


class ImageError(Exception):
    """An image message that cannot be turned into pixels; says what it claims and why not."""


@dataclass(frozen=True)
class Frame:
    """One image on its way through a node."""

    header: Any  # std_msgs/Header of the message, to be passed on unchanged
    rgb: np.ndarray  # uint8 [height, width, 3], maybe a read-only view into the message
    received: float  # s, time.monotonic() at arrival


def view(message: Image) -> np.ndarray:
    """The pixels as they are stored, [height, width(, channels)], a view into the message."""
    channels, kind = _layout(message)
    height, width, step = message.height, message.width, message.step
    if not (height and width):
        raise ImageError(f"the image is empty: {width}x{height}")
    if height * width > MAX_PIXELS:
        raise ImageError(f"{width}x{height} is more than {MAX_PIXELS} pixels")
    dtype = np.dtype(kind).newbyteorder(">" if message.is_bigendian else "<")
    row = width * channels * dtype.itemsize
    if step < row:
        raise ImageError(f"step is {step}, but a row of {width} {message.encoding} takes {row}")
    # The last row may come without its padding.
    needed = step * (height - 1) + row
    if len(message.data) < needed:
        raise ImageError(f"data has {len(message.data)} bytes, {needed} are needed")
    strides = (step, channels * dtype.itemsize, dtype.itemsize)
    pixels: np.ndarray = np.ndarray(
        (height, width, channels), dtype, message.data, strides=strides
    )
    return pixels[:, :, 0] if channels == 1 else pixels


def to_rgb(message: Image) -> np.ndarray:
    """The image as uint8 RGB; a view for rgb8, one conversion for the other encodings."""
    pixels = view(message)
    encoding = message.encoding
    if encoding in ("rgb8", "8UC3"):
        return pixels
    if encoding in ("8UC1", "8UC4"):
        encoding = {"8UC1": "mono8", "8UC4": "rgba8"}[encoding]
    if encoding not in _TO_RGB:
        raise ImageError(f"{encoding} holds depth or raw values, not colour")
    if encoding.startswith(("bayer", "yuv", "uyvy", "yuyv")) and (
        message.width % 2 or (encoding.startswith("bayer") and message.height % 2)
    ):
        raise ImageError(f"{encoding} needs even sizes, got {message.width}x{message.height}")
    if CvBridge is not None and _understood_by_cv_bridge(message, pixels):
        return _with_cv_bridge(message, pixels)
    if pixels.dtype.itemsize == 2:
        # The high byte: what cv_bridge's scaling by 1/256 amounts to, up to rounding.
        pixels = (pixels >> 8).astype(np.uint8)
    return cv2.cvtColor(np.ascontiguousarray(pixels), _TO_RGB[encoding])


def to_depth(message: Image | CompressedImage) -> np.ndarray:
    """The depth in metres, float32; 0 or NaN where there is no measurement."""
    if isinstance(message, CompressedImage):
        values = decode_depth(message)
        return values if values.dtype == np.float32 else values * np.float32(1e-3)
    pixels = view(message)
    if message.encoding == "32FC1":
        return pixels.astype(np.float32, copy=False)
    if message.encoding in ("16UC1", "mono16"):
        return pixels.astype(np.float32) * np.float32(1e-3)
    raise ImageError(f"{message.encoding} is not a depth encoding: 16UC1 (mm) or 32FC1 (m)")


def decode_depth(message: CompressedImage) -> np.ndarray:
    """What compressed_depth_image_transport or a PNG of 16 bits holds: mm (uint16) or m (float32).

    The transport writes a header of an int32 and two float32, then a PNG. For 32FC1 the PNG holds
    quantised inverse depth: depth = a / (value - b), 0 where there is none
    (https://github.com/ros-perception/image_transport_plugins, codec.cpp).
    """
    data, ours = bytes(message.data), "compressedDepth" in message.format
    if ours and message.format.rstrip().endswith("rvl"):
        raise ImageError("depth is compressed by RVL, which is not supported: use raw or PNG")
    values = _png_of_16_bits(data[12:] if ours else data)
    if values is None:
        raise ImageError(f"depth of the format '{message.format}' is not a PNG of 16 bits")
    if not (ours and message.format.startswith("32FC1")):
        return values
    a, b = struct.unpack_from("<ff", data, 4)
    with np.errstate(divide="ignore"):
        depth = np.float32(a) / (values.astype(np.float32) - np.float32(b))
    return np.where(values > 0, depth, np.float32(0)).astype(np.float32)


def _png_of_16_bits(content: bytes) -> np.ndarray | None:
    """Its values, uint16 [H, W]; None if it is none. The size is checked first."""
    try:
        width, height = PillowImage.open(io.BytesIO(content), formats=("PNG",)).size
    except (OSError, ValueError, PillowImage.DecompressionBombError):
        return None
    if not 0 < width * height <= MAX_PIXELS:
        raise ImageError(f"{width}x{height} is more than {MAX_PIXELS} pixels")
    values = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
    found = values is not None and values.dtype == np.uint16 and values.ndim == 2
    return values if found else None


def decode(message: CompressedImage, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """A JPEG or PNG as uint8 RGB. Its size is checked before a pixel is decoded."""
    if "compressedDepth" in message.format:
        raise ImageError("compressedDepth is not a colour image")
    return decode_file(message.data, max_pixels=max_pixels)


def decode_file(
    content: bytes, formats: tuple[str, ...] = ("JPEG", "PNG"), max_pixels: int = MAX_PIXELS
) -> np.ndarray:
    """An image file as uint8 RGB. Strict: OpenCV would show a truncated file half grey."""
    try:
        image = PillowImage.open(io.BytesIO(content), formats=formats)
        width, height = image.size
        if not 0 < width * height <= max_pixels:
            raise ImageError(f"{width}x{height} is more than {max_pixels} pixels")
        if image.mode.startswith("I;16"):
            return to_rgb_from_mono16(np.asarray(image))
        return np.asarray(image.convert("RGB"))
    except ImageError:
        raise
    # Pillow's plug-ins raise whatever the damage leads to; all of it means the same here.
    except (OSError, ValueError, SyntaxError, KeyError, IndexError, TypeError, EOFError,
            MemoryError, OverflowError, PillowImage.DecompressionBombError) as error:  # fmt: skip
        kinds = " or ".join(formats)
        raise ImageError(f"not a {kinds} that can be decoded: {error}") from error


def to_rgb_from_mono16(pixels: np.ndarray) -> np.ndarray:
    """Sixteen-bit grey as uint8 RGB, by the high byte."""
    return cv2.cvtColor((pixels >> 8).astype(np.uint8), cv2.COLOR_GRAY2RGB)


def rgb_message(header: Any, rgb: np.ndarray) -> Image:
    """An rgb8 image message from uint8 pixels [H, W, 3]."""
    return _message(header, rgb, "rgb8")


def mono_message(header: Any, values: np.ndarray) -> Image:
    """A mono8 image message from uint8 values [H, W], such as a mask."""
    return _message(header, values, "mono8")


def jpeg_message(header: Any, rgb: np.ndarray) -> CompressedImage:
    """A compressed image message from uint8 pixels [H, W, 3]."""
    bgr = cv2.cvtColor(np.ascontiguousarray(rgb), cv2.COLOR_RGB2BGR)
    content = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1]
    return CompressedImage(
        header=header, format="rgb8; jpeg compressed bgr8", data=content.tobytes()
    )


def depth_message(header: Any, depth: np.ndarray) -> Image:
    """A depth image message from millimetres (uint16) or metres (float32), [H, W]."""
    if depth.dtype == np.uint16:
        return _message(header, depth, "16UC1")
    return _message(header, depth.astype(np.float32, copy=False), "32FC1")


def _message(header: Any, pixels: np.ndarray, encoding: str) -> Image:
    height, width = pixels.shape[:2]
    filled = Image(header=header, height=height, width=width, encoding=encoding)
    filled.step = pixels.nbytes // height
    # Much faster than assigning bytes: the setter takes an array of bytes as it is.
    data = array.array("B")
    data.frombytes(pixels.tobytes())
    filled.data = data
    return filled


def _layout(message: Image) -> tuple[int, str]:
    try:
        return _LAYOUTS[message.encoding]
    except KeyError:
        known = ", ".join(sorted(_LAYOUTS))
        name = message.encoding[:40]
        raise ImageError(f"unknown encoding '{name}'; known are {known}") from None


def _understood_by_cv_bridge(message: Image, pixels: np.ndarray) -> bool:
    """It takes padded rows apart wrongly, and does not know the names of newer drivers."""
    tight = message.step == pixels.nbytes // message.height
    return tight and message.encoding not in ("8UC1", "8UC4", "uyvy", "yuyv")


def _with_cv_bridge(message: Image, pixels: np.ndarray) -> np.ndarray:
    try:
        return CvBridge().imgmsg_to_cv2(message, desired_encoding="rgb8")
    except Exception as error:  # cv_bridge raises CvBridgeError, TypeError, cv2.error
        shape = "x".join(map(str, pixels.shape))
        raise ImageError(
            f"cv_bridge cannot convert {message.encoding} {shape}: {error}"
        ) from error
