# SPDX-License-Identifier: Apache-2.0
"""Recordings: frames with colour, depth, stamps and camera, from folders, videos and bags.

`open_recording` recognises what lies at a path:

- a rosbag2 folder, an `.mcap` or a `.db3` file (`bag_recording`);
- a folder with `rgb/` and `depth/`, as of the Object Segmentation Database or of TUM RGB-D
  (https://cvg.cit.tum.de/data/datasets/rgbd-dataset/file_formats), optionally with `camera.json`;
- a folder of images, in the order of their names;
- a video that OpenCV can read.
"""

from __future__ import annotations

import itertools
import statistics
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Header

from newfound_core.errors import FrameError, RecordingError

__all__ = ["FrameError", "Recording", "RecordingError", "RecordingOptions", "open_recording"]

DEFAULT_RATE = 10.0  # Hz, for images without a rate of their own
JPEG_QUALITY = 90


@dataclass(frozen=True)
class RecordingOptions:
    """Which of its topics are played, and which depth belongs to a colour image."""

    image_topic: str = ""  # of a bag; empty: the only colour image
    depth_topic: str = ""  # of a bag; empty: the only depth image, or none
    depth_tolerance: float = 0.02  # s between the stamps of colour and depth


class Recording(ABC):
    """Frames by number, from 0 to `len() - 1`. A frame that is damaged raises FrameError."""

    rate: float = DEFAULT_RATE  # frames per second as recorded
    has_depth = False
    stamped = False  # whether frames have stamps of their own
    warnings: Sequence[str] = ()  # what is missing or damaged, a sentence each

    @abstractmethod
    def __len__(self) -> int:
        """How many frames there are."""

    @abstractmethod
    def rgb(self, number: int) -> np.ndarray:
        """The picture, [H, W, 3] uint8."""

    def picture_name(self, number: int) -> str:
        """Frames with the same name show the same picture."""
        return str(number)

    def jpeg(self, number: int) -> bytes:
        """The picture as a JPEG file."""
        return encode_jpeg(self.rgb(number))

    def depth_name(self, number: int) -> str | None:
        """As `picture_name`, for depth; None if there is none."""
        return None

    def depth(self, number: int) -> np.ndarray:
        """Depth [H, W]: uint16 in millimetres or float32 in metres; 0 where unknown."""
        raise FrameError(f"frame {number} has no depth")

    def camera_info(self, number: int) -> CameraInfo | None:
        """The camera as recorded, if it is known; the header is the caller's."""
        return None

    def frame_id(self, number: int) -> str:
        """The coordinate frame of the camera as recorded; empty if unknown."""
        return ""

    def time(self, number: int) -> float:
        """Seconds from the beginning, as recorded."""
        return number / self.rate

    def stamp(self, number: int) -> int:
        """The original stamp (ns); of a recording without stamps, time from 1 s on."""
        return 10**9 + round(self.time(number) * 1e9)

    def close(self) -> None:  # noqa: B027  most have nothing to release
        """Release files."""


def open_recording(path: Path, options: RecordingOptions | None = None) -> Recording:
    """The recording at a path; raises a RecordingError that says why it cannot be played."""
    # Here: the kinds of recordings are made of what this module defines.
    from newfound_runtime.bag_recording import BagRecording, is_bag
    from newfound_runtime.file_recordings import ImageFolder, RgbdFolder, Video

    options = options or RecordingOptions()
    if not path.exists():
        raise RecordingError(f"{path} does not exist: give a bag, a folder of images or a video")
    if is_bag(path):
        return BagRecording(path, options)
    if not path.is_dir():
        return Video(path)
    if (path / "rgb").is_dir() and (path / "depth").is_dir():
        return RgbdFolder(path, options.depth_tolerance)
    return ImageFolder(path)


class MonotonicStamps:
    """Shifts stamps that would go back, as at the start of a new loop, to one period later."""

    def __init__(self, period: float) -> None:
        self._period = max(1, round(period * 1e9))
        self._last: int | None = None
        self._shift = 0

    def next(self, stamp: int) -> int:
        """The stamp to publish, in nanoseconds; greater than the last."""
        if self._last is not None and stamp + self._shift <= self._last:
            self._shift = self._last + self._period - stamp
        self._last = stamp + self._shift
        return self._last


def nearest(stamps: Sequence[int], wanted: Sequence[int], tolerance: int) -> list[int | None]:
    """For each wanted stamp the index of the nearest of sorted `stamps`, if within tolerance."""
    found: list[int | None] = []
    for stamp in wanted:
        right = bisect_left(stamps, stamp)
        around = [i for i in (right - 1, right) if 0 <= i < len(stamps)]
        best = min(around, key=lambda i: abs(stamps[i] - stamp), default=None)
        near = best is not None and abs(stamps[best] - stamp) <= tolerance
        found.append(best if near else None)
    return found


def rate_of(stamps: Sequence[int]) -> float:
    """Frames per second by the median distance of stamps (ns)."""
    steps = [b - a for a, b in itertools.pairwise(stamps) if b > a]
    return min(max(1e9 / statistics.median(steps), 0.01), 1000.0) if steps else DEFAULT_RATE


def missing_depth(depths: Sequence[object | None]) -> list[str]:
    """A warning if some frames have no depth."""
    missing = sum(depth is None for depth in depths)
    return [f"{missing} of {len(depths)} frames have no depth"] if missing else []


def camera_info(
    header: Header,
    width: int,
    height: int,
    k: Sequence[float],
    distortion: Sequence[float] | None = None,
) -> CameraInfo:
    """A CameraInfo of K (row by row) and the five values of plumb_bob."""
    k = [float(value) for value in k]
    return CameraInfo(
        header=header,
        height=height,
        width=width,
        distortion_model="plumb_bob",
        d=[float(value) for value in distortion or [0.0] * 5],
        k=k,
        r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p=[*k[0:3], 0.0, *k[3:6], 0.0, *k[6:9], 0.0],
    )


def encode_jpeg(rgb: np.ndarray) -> bytes:
    """An image [H, W, 3] as a JPEG file."""
    _, coded = cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    return coded.tobytes()
