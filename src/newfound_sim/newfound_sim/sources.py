# SPDX-License-Identifier: Apache-2.0
"""Sources of frames: clips and labelled folders, which have ground truth, and other recordings."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Header

from newfound_runtime.file_recordings import RgbdFolder, read_bytes, read_depth, read_image
from newfound_runtime.recordings import (
    FrameError,
    Recording,
    RecordingError,
    RecordingOptions,
    camera_info,
    open_recording,
)
from newfound_sim.clip import FILE, SeenObject, Truth, load_clip

FIRST_OBJECT, PARTS = 20, 10  # label values of OSD: 20 to 29 are parts of the first object


class ClipSource(Recording):
    """A rendered clip."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._clip = folder, load_clip(folder)
        self.rate = self._clip.rate
        self.has_depth = any(frame.depth for frame in self._clip.frames)

    def __len__(self) -> int:
        return len(self._clip.frames)

    def picture_name(self, number: int) -> str:
        """The name of the picture's file."""
        return self._clip.frames[number].image

    def rgb(self, number: int) -> np.ndarray:
        """The picture; FrameError if its size is not the clip's."""
        path = self._folder / self.picture_name(number)
        return self._of_right_size(read_image(path), path)

    def jpeg(self, number: int) -> bytes:
        """The file as it is."""
        return read_bytes(self._folder / self.picture_name(number))

    def depth_name(self, number: int) -> str | None:
        """The name of the depth's file."""
        return self._clip.frames[number].depth

    def depth(self, number: int) -> np.ndarray:
        """Depth as rendered."""
        path = self._folder / (self.depth_name(number) or "")
        return self._of_right_size(read_depth(path), path)

    def mask_name(self, number: int) -> str | None:
        """The name of the file of classes, of rooms."""
        return self._clip.frames[number].mask

    def mask(self, number: int) -> np.ndarray:
        """The class of every pixel, uint8, by number in the clip's `classes`."""
        path = self._folder / (self.mask_name(number) or "")
        values = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        if values is None or values.ndim != 2 or values.dtype != np.uint8:
            raise FrameError(f"{path} is no mask: an 8-bit PNG with one number a pixel")
        return self._of_right_size(values, path)

    def camera_info(self, number: int) -> CameraInfo:
        """The rendered camera, which has no distortion."""
        clip = self._clip
        return camera_info(Header(), clip.width, clip.height, clip.intrinsics)

    def pose(self, number: int) -> tuple[float, ...] | None:
        """Place and quaternion of the camera's optical frame in the world, if it is known."""
        return self._clip.frames[number].pose

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


class LabelledFolder(RgbdFolder):
    """An RGB-D folder with `label/`, as of the Object Segmentation Database (OSD).

    Values of the label images: 0 none, 1 to 9 the table, 20 to 29 the parts of the first object,
    30 to 39 of the second, and so on. Objects have no names; their ground truth is a box.
    """

    def __init__(self, folder: Path, tolerance: float) -> None:
        super().__init__(folder, tolerance)
        self._labels = folder / "label"

    def truth(self, number: int) -> Truth | None:
        """The boxes of the labelled objects; None without a readable label image."""
        path = self._labels / f"{Path(self.picture_name(number)).stem}.png"
        values = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        return None if values is None or values.ndim != 2 else Truth(objects_of(values))


def objects_of(label: np.ndarray) -> tuple[SeenObject, ...]:
    """The objects of a label image of OSD, with their boxes."""
    found: list[SeenObject] = []
    for first in range(FIRST_OBJECT, int(label.max()) + 1, PARTS):
        mask = (label >= first) & (label < first + PARTS)
        if mask.any():
            box = cv2.boundingRect(mask.astype(np.uint8))
            left, top, width, height = (int(value) for value in box)
            found.append(SeenObject(len(found) + 1, "object", (left, top, width, height), 1.0))
    return tuple(found)


def truth_of(source: Recording, number: int) -> Truth | None:
    """Ground truth of a frame, if the source has it."""
    return source.truth(number) if isinstance(source, ClipSource | LabelledFolder) else None


def open_source(path: Path, options: RecordingOptions | None = None) -> Recording:
    """The source at a path: a clip, or any recording."""
    options = options or RecordingOptions()
    if (path / FILE).exists() or (path / "images").is_dir():
        return ClipSource(path)
    if all((path / name).is_dir() for name in ("rgb", "depth", "label")):
        return LabelledFolder(path, options.depth_tolerance)
    return open_recording(path, options)


def find_source(name: str) -> Path:
    """Resolve a path, or the name of a clip that is installed with the package."""
    if not name:
        raise RecordingError("no source is given: name a clip, scenario file or recording")
    path = Path(name).expanduser()
    if path.exists() or "/" in name:
        return path
    try:
        clips = Path(get_package_share_directory("newfound_sim")) / "clips"
    except PackageNotFoundError:
        raise RecordingError(f"{name} does not exist, and newfound_sim is not installed") from None
    if not (clips / name).is_dir():
        known = ", ".join(sorted(p.name for p in clips.glob("*"))) or "none"
        raise RecordingError(f"{name} is no file or folder here, nor a shipped clip ({known})")
    return clips / name
