# SPDX-License-Identifier: Apache-2.0
"""Unlabelled footage: folders of any layout, videos and rosbags, as one array of frames on disk.

At most so many frames are taken, evenly spread over all of it, and each is written at the
network's size as soon as it is read: memory does not grow with the footage. What cannot be read
is listed and left out.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from tqdm import tqdm

from newfound_core.bag_files import METADATA, is_bag
from newfound_core.bag_images import BagImages
from newfound_core.errors import DataError, FrameError, RecordingError
from newfound_core.preprocessing import Preprocessing
from newfound_core.storage import atomic_directory, read_json, write_json
from newfound_training.data.fingerprint import file_fingerprint
from newfound_training.data.images import ImageFile, image_files
from newfound_training.running.command import Run, require_same_data

VIDEOS = frozenset({".mp4", ".avi", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".mpeg"})
FEWEST = 2  # frames: a single one has no variance
_FRAMES, _REPORT = "frames.npy", "report.json"
_log = logging.getLogger(__name__)


class Clip(ABC):
    """A part of the footage whose frames are read in order."""

    name: str

    @abstractmethod
    def __len__(self) -> int:
        """How many frames it says to have."""

    def fingerprint(self) -> str:
        """Key that changes when the clip does."""
        path = Path(self.name)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        known = [(str(file), file_fingerprint(file)) for file in files if file.is_file()]
        return f"{len(self)} {known}"

    @abstractmethod
    def read(self, numbers: Sequence[int]) -> Iterator[np.ndarray | None]:
        """The frames of these rising numbers, uint8 RGB; None for one that is damaged."""


class ImageClip(Clip):
    """All images below a folder, in the order of their names."""

    def __init__(self, folder: Path, files: Sequence[ImageFile]) -> None:
        self.name, self._files = str(folder), files

    def __len__(self) -> int:
        return len(self._files)

    def fingerprint(self) -> str:
        """Names, sizes and content of the files."""
        return " ".join(file.fingerprint() for file in self._files)

    def read(self, numbers: Sequence[int]) -> Iterator[np.ndarray | None]:
        """Decode the files."""
        for number in numbers:
            try:
                yield self._files[number].read()
            except DataError:
                yield None


class VideoClip(Clip):
    """A video; frames between those that are wanted are passed over."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        video = cv2.VideoCapture(str(path))
        self._length = int(video.get(cv2.CAP_PROP_FRAME_COUNT)) if video.isOpened() else 0
        readable = self._length > 0 and video.grab()
        video.release()
        if not readable:
            raise DataError(f"{path} is not a video that OpenCV can read")

    def __len__(self) -> int:
        return self._length

    def read(self, numbers: Sequence[int]) -> Iterator[np.ndarray | None]:
        """Go through the video once; it may end before the length that it claims."""
        video, place = cv2.VideoCapture(str(self._path)), 0
        try:
            for number in numbers:
                found = True
                while found and place <= number:
                    found, place = video.grab(), place + 1
                picture = video.retrieve()[1] if found else None
                yield None if picture is None else cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
        finally:
            video.release()


class BagClip(Clip):
    """The colour images of a rosbag2 recording."""

    def __init__(self, path: Path, topic: str) -> None:
        self.name, self._path, self._topic = str(path), path, topic
        images = BagImages(path, topic)
        self._length = len(images)
        for warning in images.warnings:
            _log.warning("%s: %s", path, warning)
        images.close()

    def __len__(self) -> int:
        return self._length

    def read(self, numbers: Sequence[int]) -> Iterator[np.ndarray | None]:
        """Read the messages."""
        images = BagImages(self._path, self._topic)
        try:
            for number in numbers:
                try:
                    yield images.read(number)
                except FrameError:
                    yield None
        finally:
            images.close()


class Footage(NamedTuple):
    """Frames at the network's size, and what became of the rest."""

    frames: np.ndarray  # uint8 [N, size, size, 3], memory-mapped
    found: int  # frames in all
    damaged: int  # of those taken, not decoded
    unreadable: list[str]  # files left out, with the reason


def load_footage(
    paths: Sequence[str],
    most: int,
    prepare: Preprocessing,
    run: Run,
    *,
    topic: str = "",
    strict: bool = False,
) -> Footage:
    """Frames of all footage, from an interrupted run where it has them already."""
    clips, unreadable = open_clips(paths, topic)
    if unreadable and strict:
        raise DataError(f"{unreadable[0]}. Remove it, or leave --strict out to skip it")
    for reason in unreadable:
        _log.warning("left out: %s", reason)
    total = sum(len(clip) for clip in clips)
    if total < FEWEST:
        raise DataError(
            f"{', '.join(paths)}: {total} frames of footage, at least {FEWEST} are needed, since "
            "a single frame has no variance: give folders of images, videos or rosbags"
        )
    require_same_data(Path("footage"), [str(most), *(clip.fingerprint() for clip in clips)], run)
    folder = run.out / "footage"
    if not (folder / _REPORT).is_file():
        with atomic_directory(folder) as aside:
            damaged = _write(aside / _FRAMES, clips, min(most, total), prepare)
            write_json(aside / _REPORT, {"damaged": damaged, "taken": min(most, total)})
    report = read_json(folder / _REPORT)
    good = report["taken"] - report["damaged"]
    if good < FEWEST or (strict and report["damaged"]):
        raise DataError(f"{report['damaged']} of {report['taken']} frames cannot be decoded")
    frames = np.load(folder / _FRAMES, mmap_mode="r", allow_pickle=False)[:good]
    return Footage(frames, total, report["damaged"], unreadable)


def open_clips(paths: Sequence[str], topic: str = "") -> tuple[list[Clip], list[str]]:
    """Everything that can be opened, and why the rest cannot; nothing at a path is an error."""
    clips: list[Clip] = []
    unreadable: list[str] = []
    for path in map(Path, paths):
        if not path.exists():
            raise DataError(f"the footage {path} does not exist")
        for file in _recordings(path):
            try:
                bag = file.is_dir() or is_bag(file)
                clips.append(BagClip(file, topic) if bag else VideoClip(file))
            except (DataError, RecordingError) as error:
                unreadable.append(str(error))
        if path.is_dir() and not _is_recording(path) and (files := list(image_files(path, path))):
            clips.append(ImageClip(path, files))
    return [clip for clip in clips if len(clip)], unreadable


def _recordings(path: Path) -> Iterator[Path]:
    """Videos and bags at a path or below; a bag is not looked into."""
    if _is_recording(path):
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() or entry.suffix.lower() in VIDEOS or is_bag(entry):
            yield from _recordings(entry)


def _is_recording(path: Path) -> bool:
    """Whether a path is one video or bag; a folder with bag files may hold other things, too."""
    return not path.is_dir() or (path / METADATA).is_file()


def _write(path: Path, clips: Sequence[Clip], count: int, prepare: Preprocessing) -> int:
    """Write evenly spread frames one after the other; return how many were damaged."""
    size = prepare.size
    array = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.uint8, shape=(count, size, size, 3)
    )
    ends = np.cumsum([len(clip) for clip in clips])
    chosen = np.linspace(0, ends[-1] - 1, count).round().astype(np.int64)
    good = 0
    with tqdm(total=count, desc="footage", disable=None) as bar:
        for clip, end in zip(clips, ends, strict=True):
            own = chosen[(chosen >= end - len(clip)) & (chosen < end)] - (end - len(clip))
            for frame in clip.read(own.tolist()):
                bar.update()
                if frame is not None:
                    array[good] = prepare.resized(frame)
                    good += 1
    array.flush()
    return count - good
