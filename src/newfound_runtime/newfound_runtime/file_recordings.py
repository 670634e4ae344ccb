# SPDX-License-Identifier: Apache-2.0
"""Recordings in plain files: RGB-D folders, folders of images, videos.

RGB-D folders have the layout of the Object Segmentation Database or of TUM RGB-D
(https://cvg.cit.tum.de/data/datasets/rgbd-dataset/file_formats), optionally with `camera.json`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Header

from newfound_core.errors import DataError
from newfound_core.storage import read_json
from newfound_runtime.images import ImageError, decode_file
from newfound_runtime.recordings import (
    DEFAULT_RATE,
    FrameError,
    Recording,
    RecordingError,
    camera_info,
    missing_depth,
    nearest,
    rate_of,
)

IMAGES = (".jpg", ".jpeg", ".png", ".bmp")
TUM_DEPTH_FACTOR = 5000.0  # of a pixel value to metres
CAMERA = "camera.json"


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
