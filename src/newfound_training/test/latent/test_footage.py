# SPDX-License-Identifier: Apache-2.0
import struct
import tracemalloc

import numpy as np
import pytest
import torch
from mcap.writer import Writer

from newfound_core.errors import ConfigError, DataError
from newfound_core.preprocessing import Preprocessing
from newfound_training.latent import footage
from newfound_training.latent.footage import Clip, load_footage, open_clips
from newfound_training.running.command import Run

PREPARE = Preprocessing(16)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "out").mkdir()
    return Run("train-latent", tmp_path / "out", torch.device("cpu"), 0, "")


def test_folders_of_any_layout_and_videos_are_one_heap(tmp_path, make_image, write_video, run):
    make_image(tmp_path / "heap" / "monday" / "a" / "1.png", (9, 9, 9), 1)
    make_image(tmp_path / "heap" / "2.png", (9, 9, 9), 2)
    write_video(tmp_path / "heap" / "tuesday.avi", 7)
    write_video(tmp_path / "alone.avi", 4)
    found = load_footage([str(tmp_path / "heap"), str(tmp_path / "alone.avi")], 100, PREPARE, run)
    assert found.frames.shape == (13, 16, 16, 3)
    assert (found.found, found.damaged, found.unreadable) == (13, 0, [])


def write_bag(path, frames):
    """An MCAP file of rgb8 images as rosbag2 stores them, serialised by hand (CDR)."""
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2")
        schema = writer.register_schema("sensor_msgs/msg/Image", "ros2msg", b"")
        channel = writer.register_channel("/camera/image_raw", "cdr", schema)
        for number in range(frames):
            pixels = np.full((6, 8, 3), 20 * number, np.uint8).tobytes()
            data = struct.pack("<BBBBiII4sIII5sBxxII", 0, 1, 0, 0, 5, 0, 4, b"cam\0", 6, 8, 5,
                               b"rgb8\0", 0, 24, len(pixels)) + pixels  # fmt: skip
            writer.add_message(channel, number, data, number)
        writer.finish()
    return path


def test_frames_of_a_bag_are_read_without_ros(tmp_path, run):
    (tmp_path / "heap").mkdir()
    write_bag(tmp_path / "heap" / "drive.mcap", 5)
    found = load_footage([str(tmp_path / "heap")], 100, PREPARE, run)
    assert found.frames.mean((1, 2, 3)).tolist() == [0, 20, 40, 60, 80]


def test_a_damaged_bag_is_left_out_with_a_sentence(tmp_path, write_video, run):
    write_video(tmp_path / "a.avi", 3)
    (tmp_path / "b.mcap").write_bytes(b"no bag")
    found = load_footage([str(tmp_path)], 100, PREPARE, run)
    assert len(found.frames) == 3
    assert "b.mcap is not an MCAP file" in found.unreadable[0]


def test_frames_are_taken_evenly_from_all_of_it(tmp_path, write_video, run):
    write_video(tmp_path / "a.avi", 12)
    found = load_footage([str(tmp_path)], 4, PREPARE, run)
    brightness = found.frames.mean((1, 2, 3))
    assert len(found.frames) == 4
    steps = np.diff(brightness)  # of ten a frame, every 3.67 frames
    assert steps.min() > 25
    assert steps.max() < 50


def test_a_corrupt_video_is_left_out_with_a_sentence_or_refused(tmp_path, write_video, run):
    whole = write_video(tmp_path / "a.avi")
    (tmp_path / "b.mp4").write_bytes(b"no video at all")
    found = load_footage([str(tmp_path)], 100, PREPARE, run)
    assert len(found.frames) == 12
    assert "b.mp4 is not a video" in found.unreadable[0]
    with pytest.raises(DataError, match="leave --strict out"):
        load_footage([str(tmp_path)], 100, PREPARE, run, strict=True)
    whole.write_bytes(whole.read_bytes()[:6000])  # cut off
    clips, _ = open_clips([str(whole)])
    frames = list(clips[0].read(range(len(clips[0])))) if clips else []
    assert sum(frame is not None for frame in frames) < 12


def test_one_frame_or_none_is_refused_with_the_reason(tmp_path, make_image, run):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="0 frames of footage, at least 2"):
        load_footage([str(tmp_path / "empty")], 10, PREPARE, run)
    make_image(tmp_path / "one" / "1.png", (9, 9, 9), 1)
    with pytest.raises(DataError, match="a single frame has no variance"):
        load_footage([str(tmp_path / "one")], 10, PREPARE, run)
    with pytest.raises(DataError, match="does not exist"):
        load_footage([str(tmp_path / "nowhere")], 10, PREPARE, run)


def test_damaged_images_are_counted_and_left_out(tmp_path, make_image, run):
    for number in range(4):
        make_image(tmp_path / "a" / f"{number}.png", (9, 9, 9), number)
    (tmp_path / "a" / "0.png").write_bytes(b"broken")
    found = load_footage([str(tmp_path / "a")], 10, PREPARE, run)
    assert (len(found.frames), found.damaged) == (3, 1)


def test_a_resumed_run_reads_nothing_again_and_refuses_other_footage(
    tmp_path, make_image, run, monkeypatch
):
    for number in range(3):
        make_image(tmp_path / "a" / f"{number}.png", (9, 9, 9), number)
    first = load_footage([str(tmp_path / "a")], 10, PREPARE, run).frames
    monkeypatch.setattr(footage, "_write", None)
    assert np.array_equal(load_footage([str(tmp_path / "a")], 10, PREPARE, run).frames, first)
    make_image(tmp_path / "a" / "4.png", (9, 9, 9), 4)
    with pytest.raises(ConfigError, match="not what it was"):
        load_footage([str(tmp_path / "a")], 10, PREPARE, run)


class Endless(Clip):
    """A hundred thousand frames that are made when they are read."""

    name = "endless"

    def __len__(self):
        return 100_000

    def fingerprint(self):
        return "endless"

    def read(self, numbers):
        for number in numbers:
            yield np.full((120, 160, 3), number % 256, np.uint8)


def test_memory_does_not_grow_with_a_hundred_thousand_frames(tmp_path, monkeypatch, run):
    monkeypatch.setattr(footage, "open_clips", lambda paths, topic: ([Endless()], []))
    tracemalloc.start()
    found = load_footage(["endless"], 2000, Preprocessing(32), run)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.frames.shape == (2000, 32, 32, 3)
    assert peak < 3e6  # the frames themselves are six million bytes, on disk
