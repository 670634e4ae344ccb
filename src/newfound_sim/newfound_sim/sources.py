# SPDX-License-Identifier: Apache-2.0
"""Sources of frames: clips, image folders and videos."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from pathlib import Path

import cv2
import numpy as np
from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from PIL import Image as PillowImage

from newfound_sim.clip import FILE, Matrix, Truth, load_clip
from newfound_sim.errors import SimulationError

IMAGES = (".jpg", ".jpeg", ".png", ".bmp")
FOLDER_RATE = 10.0  # Hz, for images without a rate of their own
MAX_SIDE = 8192
JPEG_QUALITY = 90


class SourceError(SimulationError):
    """A source that cannot be played."""


class FrameError(SimulationError):
    """One frame cannot be shown; others may be."""


class Source(ABC):
    """Frames by number, from 0 to `len() - 1`. A frame that is damaged raises FrameError."""

    rate: float = FOLDER_RATE  # frames per second as recorded
    intrinsics: Matrix | None = None  # K, if the camera is known
    has_depth = False

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
        quality = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
        _, coded = cv2.imencode(".jpg", self.rgb(number)[..., ::-1], quality)
        return coded.tobytes()

    def depth_name(self, number: int) -> str | None:
        """As `picture_name`, for depth; None if there is none."""
        return None

    def depth(self, number: int) -> np.ndarray:
        """Millimetres, [H, W] uint16; 0 where unknown."""
        raise FrameError(f"frame {number} has no depth")

    def truth(self, number: int) -> Truth | None:
        """Ground truth of the frame, if known."""
        return None

    def time(self, number: int) -> float:
        """Seconds from the beginning, as recorded."""
        return number / self.rate


class ClipSource(Source):
    """A rendered clip."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._clip = folder, load_clip(folder)
        self.rate, self.intrinsics = self._clip.rate, self._clip.intrinsics
        self.has_depth = any(frame.depth for frame in self._clip.frames)

    def __len__(self) -> int:
        return len(self._clip.frames)

    def picture_name(self, number: int) -> str:
        """The name of the picture's file."""
        return self._clip.frames[number].image

    def rgb(self, number: int) -> np.ndarray:
        """The picture; FrameError if its size is not the clip's."""
        path = self._folder / self.picture_name(number)
        return self._of_right_size(decode(_read(path), path), path)

    def jpeg(self, number: int) -> bytes:
        """The file as it is."""
        return _read(self._folder / self.picture_name(number))

    def depth_name(self, number: int) -> str | None:
        """The name of the depth's file."""
        return self._clip.frames[number].depth

    def depth(self, number: int) -> np.ndarray:
        """Depth as rendered."""
        path = self._folder / (self.depth_name(number) or "")
        content = np.frombuffer(_read(path), np.uint8)
        found = cv2.imdecode(content, cv2.IMREAD_UNCHANGED) if content.size else None
        if found is None or found.dtype != np.uint16 or found.ndim != 2:
            raise FrameError(f"{path} is not a 16-bit PNG")
        return self._of_right_size(found, path)

    def truth(self, number: int) -> Truth:
        """Ground truth of the frame."""
        return self._clip.truths[self._clip.frames[number].truth]

    def time(self, number: int) -> float:
        """The time of the frame in its scenario."""
        return self._clip.frames[number].time

    def _of_right_size(self, picture: np.ndarray, path: Path) -> np.ndarray:
        height, width = picture.shape[:2]
        if (width, height) != (self._clip.width, self._clip.height):
            wanted = f"{self._clip.width}x{self._clip.height}"
            raise FrameError(f"{path} has {width}x{height} pixels, the clip {wanted}")
        return picture


class FolderSource(Source):
    """The images of a folder, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        self._files = sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGES)
        if not self._files:
            raise SourceError(
                f"{folder} is neither a clip (no {FILE}) nor a folder of images "
                f"(no file ends in {', '.join(IMAGES)})"
            )

    def __len__(self) -> int:
        return len(self._files)

    def rgb(self, number: int) -> np.ndarray:
        """The image."""
        return decode(_read(self._files[number]), self._files[number])

    def jpeg(self, number: int) -> bytes:
        """The file itself if it is a JPEG."""
        path = self._files[number]
        return _read(path) if path.suffix.lower() in IMAGES[:2] else super().jpeg(number)


class VideoSource(Source):
    """A video file, read sequentially; a step back reopens it."""

    def __init__(self, path: Path) -> None:
        self._path, self._next = path, 0
        self._video = self._open()
        rate = self._video.get(cv2.CAP_PROP_FPS)
        self.rate = rate if 0 < rate <= 1000 else FOLDER_RATE
        self._length = int(self._video.get(cv2.CAP_PROP_FRAME_COUNT))
        if self._length <= 0 or not self._video.grab():
            raise SourceError(f"{path} is not a video that OpenCV can read")
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
            raise SourceError(f"{self._path} is not a video that OpenCV can read")
        return video


def open_source(path: Path) -> Source:
    """The source at a path, which is a clip, an image folder or a video."""
    if not path.exists():
        raise SourceError(f"{path} does not exist: give a clip, an image folder or a video")
    if not path.is_dir():
        return VideoSource(path)
    pictures_of_a_clip = (path / FILE).exists() or (path / "images").is_dir()
    return ClipSource(path) if pictures_of_a_clip else FolderSource(path)


def decode(content: bytes, path: Path) -> np.ndarray:
    """An image file as uint8 RGB. Strict: OpenCV would show a truncated file half grey."""
    try:
        image = PillowImage.open(io.BytesIO(content), formats=("JPEG", "PNG", "BMP"))
        if max(image.size) > MAX_SIDE:
            raise FrameError(f"{path}: {image.size[0]}x{image.size[1]} is larger than {MAX_SIDE}")
        return np.asarray(image.convert("RGB"))
    # Pillow's plug-ins raise any exception on damaged files; all mean the same here.
    except (OSError, ValueError, SyntaxError, KeyError, IndexError, TypeError, EOFError,
            MemoryError, OverflowError, PillowImage.DecompressionBombError) as error:  # fmt: skip
        raise FrameError(f"{path} is not an image that can be decoded: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FrameError(f"{path} cannot be read: {error.strerror}") from error


def find_source(name: str) -> Path:
    """Resolve a path, or the name of a clip that is installed with the package."""
    if not name:
        raise SourceError("no source is given: name a clip, scenario file, image folder or video")
    path = Path(name).expanduser()
    if path.exists() or "/" in name:
        return path
    try:
        clips = Path(get_package_share_directory("newfound_sim")) / "clips"
    except PackageNotFoundError:
        raise SourceError(f"{name} does not exist, and newfound_sim is not installed") from None
    if not (clips / name).is_dir():
        known = ", ".join(sorted(p.name for p in clips.glob("*"))) or "none"
        raise SourceError(f"{name} is no file or folder here, nor a shipped clip ({known})")
    return clips / name
