# SPDX-License-Identifier: Apache-2.0
"""Colour images of a rosbag2 recording, read without ROS.

`sensor_msgs/msg/Image` and `CompressedImage` are laid out by CDR (the serialisation of DDS): a
header of four bytes, then values aligned to their size from there, texts and arrays with their
length before them.
"""

import struct
from pathlib import Path

import cv2
import numpy as np

from newfound_core.bag_files import Bag, Topic
from newfound_core.errors import FrameError, RecordingError

RAW, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
# Channels as stored, and OpenCV's conversion to RGB, which names Bayer patterns by the second row.
_ENCODINGS: dict[str, tuple[int, int | None]] = {
    "rgb8": (3, None),
    "8UC3": (3, None),
    "bgr8": (3, cv2.COLOR_BGR2RGB),
    "rgba8": (4, cv2.COLOR_RGBA2RGB),
    "bgra8": (4, cv2.COLOR_BGRA2RGB),
    "mono8": (1, cv2.COLOR_GRAY2RGB),
    "8UC1": (1, cv2.COLOR_GRAY2RGB),
    "uyvy": (2, cv2.COLOR_YUV2RGB_UYVY),
    "yuv422": (2, cv2.COLOR_YUV2RGB_UYVY),
    "yuyv": (2, cv2.COLOR_YUV2RGB_YUY2),
    "yuv422_yuy2": (2, cv2.COLOR_YUV2RGB_YUY2),
    "bayer_rggb8": (1, cv2.COLOR_BayerBG2RGB),
    "bayer_bggr8": (1, cv2.COLOR_BayerRG2RGB),
    "bayer_gbrg8": (1, cv2.COLOR_BayerGR2RGB),
    "bayer_grbg8": (1, cv2.COLOR_BayerGB2RGB),
}


class BagImages:
    """The frames of the colour camera in a bag, in the order in which they were recorded."""

    def __init__(self, path: Path, topic: str = "") -> None:
        self._bag = Bag(path, (RAW, COMPRESSED))
        try:
            self.topic = _choose(self._bag, topic)
        except BaseException:
            self._bag.close()
            raise
        self.warnings = list(self._bag.warnings)

    def __len__(self) -> int:
        return len(self.topic.entries)

    def read(self, number: int) -> np.ndarray:
        """One frame, uint8 [H, W, 3] RGB; a FrameError if it is damaged."""
        message = self._bag.read(self.topic.entries[number])
        try:
            return decode_image(message, self.topic.type)
        except (ValueError, struct.error, cv2.error) as error:
            raise FrameError(
                f"{self._bag.path}: message {number} of {self.topic.name} is damaged: {error}"
            ) from error

    def close(self) -> None:
        """Close the bag."""
        self._bag.close()


def _choose(bag: Bag, wanted: str) -> Topic:
    """The topic of a name, or the only one; raw rather than compressed, never depth."""
    found = {t.name: t for t in bag.topics.values() if t.type in (RAW, COMPRESSED) and t.entries}
    if wanted:
        if wanted not in found:
            known = ", ".join(sorted(found)) or "none"
            raise RecordingError(f"{bag.path} has no images on {wanted}; it has {known}")
        return found[wanted]
    colour = [t for t in found.values() if not _is_depth(bag, t)]
    raw = {t.name for t in colour if t.type == RAW}
    colour = [t for t in colour if t.type == RAW or t.name.removesuffix("/compressed") not in raw]
    if len(colour) != 1:
        names = ", ".join(sorted(t.name for t in colour)) or "none"
        raise RecordingError(f"{bag.path} must have one topic of colour images or one chosen by "
                             f"image_topic; it has {names}")  # fmt: skip
    return colour[0]


def _is_depth(bag: Bag, topic: Topic) -> bool:
    fields = _Cdr(bag.read(topic.entries[0]))
    try:
        fields.header()
        if topic.type == COMPRESSED:
            return "compressedDepth" in fields.text()
        fields.numbers("II")
        return fields.text() not in _ENCODINGS
    except (ValueError, struct.error):
        return False  # damaged: said when it is read


def decode_image(message: bytes, kind: str) -> np.ndarray:
    """Pixels of a serialised message as uint8 RGB; a ValueError says why there are none."""
    fields = _Cdr(message)
    fields.header()
    if kind == COMPRESSED:
        fields.text()
        content = np.frombuffer(fields.array(), np.uint8)
        found = cv2.imdecode(content, cv2.IMREAD_COLOR) if content.size else None
        if found is None:
            raise ValueError("not an image file that OpenCV can read")
        return cv2.cvtColor(found, cv2.COLOR_BGR2RGB)
    height, width = fields.numbers("II")
    encoding = fields.text()
    fields.numbers("B")
    (step,) = fields.numbers("I")
    if encoding not in _ENCODINGS:
        raise ValueError(f"{encoding!r} is no colour encoding that can be read here")
    channels, conversion = _ENCODINGS[encoding]
    data, row = fields.array(), width * channels
    if not width or not height or step < row or len(data) < step * (height - 1) + row:
        raise ValueError(f"{len(data)} bytes are no image of {width} x {height} in {encoding}")
    pixels: np.ndarray = np.ndarray(
        (height, width, channels), np.uint8, data, strides=(step, channels, 1)
    )
    if conversion is None:
        return np.ascontiguousarray(pixels)
    return cv2.cvtColor(np.ascontiguousarray(pixels), conversion)


class _Cdr:
    """Values of a serialised message one after the other."""

    def __init__(self, message: bytes) -> None:
        if len(message) < 4:
            raise ValueError(f"a message of {len(message)} bytes")
        self._data, self._place = memoryview(message)[4:], 0
        self._order = "<" if message[1] & 1 else ">"

    def header(self) -> None:
        """Skip a std_msgs/Header."""
        self.numbers("II")
        self.text()

    def numbers(self, kinds: str) -> tuple[int, ...]:
        return tuple(self._number(kind) for kind in kinds)

    def _number(self, kind: str) -> int:
        size = struct.calcsize(kind)
        self._place = -(-self._place // size) * size
        (value,) = struct.unpack_from(self._order + kind, self._data, self._place)
        self._place += size
        return value

    def array(self) -> memoryview:
        length = self._number("I")
        if self._place + length > len(self._data):
            raise ValueError(f"cut off: {length} bytes announced")
        self._place += length
        return self._data[self._place - length : self._place]

    def text(self) -> str:
        return bytes(self.array()).rstrip(b"\0").decode(errors="replace")
