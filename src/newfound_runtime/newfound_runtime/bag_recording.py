# SPDX-License-Identifier: Apache-2.0
"""A rosbag2 recording as frames: which topic is the camera, which depth belongs to an image."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from newfound_runtime import images
from newfound_runtime.bag_files import Bag, Topic, is_bag
from newfound_runtime.images import ImageError
from newfound_runtime.recordings import (
    FrameError,
    Recording,
    RecordingError,
    RecordingOptions,
    missing_depth,
    nearest,
    rate_of,
)

RAW, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
INFO = "sensor_msgs/msg/CameraInfo"
_DEPTH_ENCODINGS = ("16UC1", "32FC1")
_MONO = ("mono8", "mono16", "8UC1")
_SIBLINGS = ("compressed", "compressedDepth")  # of image_transport; the later is preferred
_REGISTERED = ("aligned", "registered")  # in names of depth that fits the colour image

__all__ = ["BagRecording", "is_bag"]


class BagRecording(Recording):
    """The images of one topic of a bag, with the nearest depth and the camera's parameters."""

    stamped = True

    def __init__(self, path: Path, options: RecordingOptions) -> None:
        self._bag = Bag(path, (RAW, COMPRESSED, INFO))
        try:
            self._choose(options)
        except BaseException:
            self._bag.close()
            raise
        self._cached: tuple[int, Image | CompressedImage] | None = None

    def _choose(self, options: RecordingOptions) -> None:
        pictures = [t for t in self._bag.topics.values() if t.type in (RAW, COMPRESSED)]
        pictures = [t for t in pictures if t.entries]
        kinds = {t.name: _kind(self._bag, t) for t in pictures}
        self._colour = _chosen(self._bag, kinds, options.image_topic)
        self._entries = self._colour.entries
        stamps = [entry.stamp for entry in self._entries]
        self._depth = _depth_topic(self._bag, kinds, options.depth_topic)
        self._depths: Sequence[int | None] = [None] * len(stamps)
        self.warnings = list(self._bag.warnings)
        if self._depth is not None:
            self._depth.entries.sort(key=lambda entry: entry.stamp)
            known = [entry.stamp for entry in self._depth.entries]
            self._depths = nearest(known, stamps, round(options.depth_tolerance * 1e9))
            self.has_depth = any(found is not None for found in self._depths)
            self.warnings += missing_depth(self._depths)
        self._info = _info_topic(self._bag, self._colour.name)
        self.rate = rate_of(stamps)

    def __len__(self) -> int:
        return len(self._entries)

    def rgb(self, number: int) -> np.ndarray:
        """The image, decoded."""
        message = self._message(number)
        compressed = isinstance(message, CompressedImage)
        decode: Callable = images.decode if compressed else images.to_rgb
        try:
            return decode(message)
        except ImageError as error:
            raise FrameError(f"{self._place(number)}: {error}") from error

    def jpeg(self, number: int) -> bytes:
        """The recorded JPEG where there is one."""
        message = self._message(number)
        if isinstance(message, CompressedImage) and bytes(message.data[:2]) == b"\xff\xd8":
            return bytes(message.data)
        return super().jpeg(number)

    def depth_name(self, number: int) -> str | None:
        """The number of the depth image."""
        found = self._depths[number]
        return None if found is None else str(found)

    def depth(self, number: int) -> np.ndarray:
        """The depth as recorded, in millimetres or metres."""
        found = self._depths[number]
        if found is None or self._depth is None:
            return super().depth(number)
        try:
            return _depth_values(self._bag.message(self._depth, self._depth.entries[found]))
        except ImageError as error:
            raise FrameError(f"{self._place(number)}: {error}") from error

    def camera_info(self, number: int) -> CameraInfo | None:
        """The last message of the camera up to the image; the first if there is none before."""
        if self._info is None:
            return None
        logged = self._entries[number].logged
        after = bisect_right(self._info.entries, logged, key=lambda entry: entry.logged)
        return self._bag.message(self._info, self._info.entries[max(0, after - 1)])

    def frame_id(self, number: int) -> str:
        """As the image's header says."""
        return self._message(number).header.frame_id

    def time(self, number: int) -> float:
        """Seconds since the first frame."""
        return (self._entries[number].stamp - self._entries[0].stamp) * 1e-9

    def stamp(self, number: int) -> int:
        """The stamp of the image's header, or when it was recorded if that is zero."""
        return self._entries[number].stamp

    def close(self) -> None:
        """Close the bag."""
        self._bag.close()

    def _message(self, number: int) -> Image | CompressedImage:
        if self._cached is None or self._cached[0] != number:
            self._cached = number, self._bag.message(self._colour, self._entries[number])
        return self._cached[1]

    def _place(self, number: int) -> str:
        return f"{self._bag.path}, message {number} of {self._colour.name}"


def _kind(bag: Bag, topic: Topic) -> str:
    """colour, mono or depth, by the first message that can be read."""
    for entry in topic.entries[:5]:
        try:
            message = bag.message(topic, entry)
        except FrameError:
            continue  # the next one may be whole
        text = message.format if isinstance(message, CompressedImage) else message.encoding
        encoding = text.partition(";")[0].strip()
        # Infrared cameras publish mono16, and so do some depth cameras.
        named = encoding == "mono16" and "depth" in topic.name
        if "compressedDepth" in text or encoding in _DEPTH_ENCODINGS or named:
            return "depth"
        return "mono" if encoding in _MONO else "colour"
    return "colour"


def _chosen(bag: Bag, kinds: dict[str, str], wanted: str) -> Topic:
    """The topic of the camera; a RecordingError that lists the topics if it is not clear."""
    if wanted:
        if wanted not in kinds:
            raise RecordingError(f"{bag.path} has no images on {wanted}. {_listing(bag)}")
        return bag.topics[wanted]
    for kind in ("colour", "mono"):
        found = _one_for_each_camera([name for name, k in kinds.items() if k == kind])
        if len(found) == 1:
            return bag.topics[found[0]]
        if found:
            raise RecordingError(
                f"{bag.path} has several image topics: {', '.join(found)}. "
                "Choose one (image_topic)"
            )
    raise RecordingError(f"{bag.path} has no colour images. {_listing(bag)}")


def _depth_topic(bag: Bag, kinds: dict[str, str], wanted: str) -> Topic | None:
    if wanted:
        if wanted not in kinds:
            raise RecordingError(f"{bag.path} has no images on {wanted}. {_listing(bag)}")
        return bag.topics[wanted]
    found = _one_for_each_camera([name for name, kind in kinds.items() if kind == "depth"])
    fitting = [name for name in found if any(word in name for word in _REGISTERED)]
    found = fitting if len(fitting) == 1 else found
    if len(found) > 1:
        raise RecordingError(
            f"{bag.path} has several depth topics: {', '.join(found)}. Choose the one that is "
            "registered to the colour image (depth_topic)"
        )
    return bag.topics[found[0]] if found else None


def _one_for_each_camera(names: Sequence[str]) -> list[str]:
    """One topic for each image that is recorded raw and compressed: the first of these."""

    def base_and_rank(name: str) -> tuple[str, int]:
        base, _, last = name.rpartition("/")
        return (base, -_SIBLINGS.index(last)) if last in _SIBLINGS else (name, -len(_SIBLINGS))

    chosen: dict[str, str] = {}
    for name in sorted(names, key=base_and_rank, reverse=True):
        chosen[base_and_rank(name)[0]] = name
    return sorted(chosen.values())


def _info_topic(bag: Bag, image: str) -> Topic | None:
    """The camera_info beside the image topic, or the only one there is."""
    infos = {t.name: t for t in bag.topics.values() if t.type == INFO and t.entries}
    base = image
    for _ in range(2):  # a compressed image is one level deeper
        base = base.rpartition("/")[0]
        if f"{base}/camera_info" in infos:
            return infos[f"{base}/camera_info"]
    return next(iter(infos.values())) if len(infos) == 1 else None


def _listing(bag: Bag) -> str:
    topics = [f"{t.name} ({t.type}, {t.messages})" for t in bag.topics.values()]
    return "; ".join([f"Its topics: {', '.join(sorted(topics)) or 'none'}", *bag.warnings])


def _depth_values(message: Image | CompressedImage) -> np.ndarray:
    """Depth in millimetres (uint16) or metres (float32) of a raw or compressed image."""
    if isinstance(message, Image):
        if message.encoding == "32FC1":
            return images.to_depth(message)
        images.to_depth(message)  # refuses other encodings
        return images.view(message).astype(np.uint16, copy=False)
    return images.decode_depth(message)
