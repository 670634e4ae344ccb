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
from typing import Any

import cv2
import numpy as np
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Header

from newfound_core.errors import DataError, NewfoundError
from newfound_core.storage import read_json
from newfound_runtime.images import ImageError, decode_file

IMAGES = (".jpg", ".jpeg", ".png", ".bmp")
DEFAULT_RATE = 10.0  # Hz, for images without a rate of their own
TUM_DEPTH_FACTOR = 5000.0  # of a pixel value to metres
CAMERA = "camera.json"
JPEG_QUALITY = 90


class RecordingError(NewfoundError):
    """A recording that cannot be played; says what was found and what to do."""


class FrameError(NewfoundError):
    """One frame cannot be shown; others may be."""


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


class ImageFolder(Recording):
    """The images of a folder, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        self._files = list_images(folder)
        if not self._files:
            raise RecordingError(
                f"{folder} is no recording: it has no image ({', '.join(IMAGES)}), no folders rgb "
                "and depth, and no .mcap or .db3 file"
            )

    def __len__(self) -> int:
        return len(self._files)

    def picture_name(self, number: int) -> str:
        """The name of the file."""
        return self._files[number].name

    def rgb(self, number: int) -> np.ndarray:
        """The image."""
        return read_image(self._files[number])

    def jpeg(self, number: int) -> bytes:
        """The file itself if it is a JPEG."""
        path = self._files[number]
        return read_bytes(path) if path.suffix.lower() in IMAGES[:2] else super().jpeg(number)


class RgbdFolder(ImageFolder):
    """Colour images in `rgb/`, and depth of the same name or the nearest time stamp in `depth/`.

    Where all names, or the lists `rgb.txt` and `depth.txt`, are time stamps, the layout is TUM's.
    """

    has_depth = True

    def __init__(self, folder: Path, tolerance: float = 0.02) -> None:
        super().__init__(folder / "rgb")
        colour, depth = _stamped_files(folder, "rgb"), _stamped_files(folder, "depth")
        self.stamped = bool(colour and depth)
        self._camera = _read_camera(folder / CAMERA)
        self._factor = float(self._camera.get("depth_factor", 0)) if self._camera else 0.0
        if self.stamped:
            self._stamps, files = zip(*colour, strict=True)
            self._files = list(files)
            self._factor = self._factor or TUM_DEPTH_FACTOR
            paired = nearest([at for at, _ in depth], self._stamps, round(tolerance * 1e9))
            self._depths = [None if found is None else depth[found][1] for found in paired]
            self.rate = rate_of(self._stamps)
        else:
            names = {file.stem: file for file in list_images(folder / "depth")}
            self._depths = [names.get(file.stem) for file in self._files]
        self.warnings = missing_depth(self._depths)
        if len(self.warnings) and not any(self._depths):
            raise RecordingError(
                f"{folder}: no depth image belongs to a colour image; they need the same names, "
                f"or time stamps as names at most {tolerance} s apart (depth_tolerance)"
            )

    def depth_name(self, number: int) -> str | None:
        """The name of the depth's file."""
        file = self._depths[number]
        return file.name if file else None

    def depth(self, number: int) -> np.ndarray:
        """Depth in millimetres, or in metres where the file has another unit."""
        file = self._depths[number]
        if file is None:
            return super().depth(number)
        values = read_depth(file)
        return values.astype(np.float32) / np.float32(self._factor) if self._factor else values

    def camera_info(self, number: int) -> CameraInfo | None:
        """As `camera.json` says."""
        if self._camera is None:
            return None
        c = self._camera
        k = (c["fx"], 0.0, c["cx"], 0.0, c["fy"], c["cy"], 0.0, 0.0, 1.0)
        return camera_info(Header(), c["width"], c["height"], k, c.get("dist_k1k2p1p2k3"))

    def time(self, number: int) -> float:
        """Seconds since the first frame."""
        if not self.stamped:
            return super().time(number)
        return (self._stamps[number] - self._stamps[0]) * 1e-9

    def stamp(self, number: int) -> int:
        """The time stamp of the colour image."""
        return self._stamps[number] if self.stamped else super().stamp(number)


class Video(Recording):
    """A video file, read sequentially; a step back reopens it."""

    def __init__(self, path: Path) -> None:
        self._path, self._next = path, 0
        self._video = self._open()
        rate = self._video.get(cv2.CAP_PROP_FPS)
        self.rate = rate if 0 < rate <= 1000 else DEFAULT_RATE
        self._length = int(self._video.get(cv2.CAP_PROP_FRAME_COUNT))
        if self._length <= 0 or not self._video.grab():
            raise RecordingError(f"{path} is not a video that OpenCV can read")
        self._next = 1

    def __len__(self) -> int:
        return self._length

    def rgb(self, number: int) -> np.ndarray:
        """The frame; if the video ends before it, its length is corrected."""
        if number < self._next:
            self._video, self._next = self._open(), 0
        while self._next <= number:
            if not self._video.grab():
                self._length = max(1, min(self._length, self._next))
                raise FrameError(f"{self._path} ends before frame {number}")
            self._next += 1
        found, picture = self._video.retrieve()
        if not found:
            raise FrameError(f"{self._path}: frame {number} cannot be decoded")
        return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)

    def _open(self) -> cv2.VideoCapture:
        video = cv2.VideoCapture(str(self._path))
        if not video.isOpened():
            raise RecordingError(f"{self._path} is not a video that OpenCV can read")
        return video


def open_recording(path: Path, options: RecordingOptions | None = None) -> Recording:
    """The recording at a path; raises a RecordingError that says why it cannot be played."""
    from newfound_runtime.bag_recording import BagRecording, is_bag

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


def list_images(folder: Path) -> list[Path]:
    """The image files of a folder, in the order of their names."""
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGES)


def read_bytes(path: Path) -> bytes:
    """The content of a file; a FrameError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FrameError(f"{path} cannot be read: {error.strerror}") from error


def read_image(path: Path) -> np.ndarray:
    """An image file as uint8 RGB; a FrameError if it is none."""
    try:
        return decode_file(read_bytes(path), ("JPEG", "PNG", "BMP"))
    except ImageError as error:
        raise FrameError(f"{path} is not an image that can be decoded: {error}") from error


def read_depth(path: Path) -> np.ndarray:
    """A 16-bit PNG as uint16; a FrameError if it is none."""
    content = np.frombuffer(read_bytes(path), np.uint8)
    found = cv2.imdecode(content, cv2.IMREAD_UNCHANGED) if content.size else None
    if found is None or found.dtype != np.uint16 or found.ndim != 2:
        raise FrameError(f"{path} is not a 16-bit PNG")
    return found


def _stamped_files(folder: Path, kind: str) -> list[tuple[int, Path]]:
    """Files with their stamps (ns), in order of time; empty if they have none."""
    return _listed_files(folder, kind) or _named_by_stamp(folder / kind)


def _listed_files(folder: Path, kind: str) -> list[tuple[int, Path]]:
    """What `rgb.txt` or `depth.txt` of TUM lists; empty if there is no such list."""
    found = []
    try:
        for line in (folder / f"{kind}.txt").read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                stamp, name = line.split()
                # By name alone: a list must not lead out of the folder.
                found.append((_nanoseconds(stamp), folder / kind / Path(name).name))
    except (OSError, ValueError):
        return []  # none, or what git-lfs leaves in its place
    return sorted((at, file) for at, file in found if file.is_file())


def _named_by_stamp(folder: Path) -> list[tuple[int, Path]]:
    """The images of a folder whose names are all seconds with a fraction; else empty."""
    try:
        found = [(_nanoseconds(file.stem), file) for file in list_images(folder)]
    except ValueError:
        return []
    return sorted(found) if all("." in file.stem for _, file in found) else []


def _nanoseconds(seconds: str) -> int:
    """Seconds in decimal notation as whole nanoseconds, without a rounding error."""
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 10**9 + int(f"{fraction:0<9}"[:9])


def _read_camera(path: Path) -> dict[str, Any] | None:
    """`camera.json`: width, height, fx, fy, cx, cy; optionally dist_k1k2p1p2k3, depth_factor."""
    if not path.is_file():
        return None
    try:
        camera = read_json(path)
        for key, kind in {"width": int, "height": int, "fx": float, "fy": float,
                          "cx": float, "cy": float}.items():  # fmt: skip
            camera[key] = kind(camera[key])
        if len(camera.get("dist_k1k2p1p2k3", [0.0] * 5)) != 5:
            raise ValueError("dist_k1k2p1p2k3 must have five values")
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise RecordingError(
            f"{path} describes no camera ({error!r}): needed are width, height, fx, fy, cx, cy"
        ) from error
    return camera
