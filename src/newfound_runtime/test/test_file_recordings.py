# SPDX-License-Identifier: Apache-2.0
"""Folders and videos as recordings, written by the tests as real files."""

import json

import cv2
import numpy as np
import pytest

from newfound_runtime.file_recordings import ImageFolder, RgbdFolder, Video
from newfound_runtime.recordings import (
    FrameError,
    RecordingError,
    RecordingOptions,
    open_recording,
)

CAMERA = {"width": 32, "height": 24, "fx": 50.0, "fy": 51.0, "cx": 15.5, "cy": 11.5}


@pytest.fixture
def folder(tmp_path):
    """Three images in three formats, of brightness 0, 60, 120."""
    place = tmp_path / "images_here"
    place.mkdir()
    for number, ending in enumerate(("jpg", "png", "bmp")):
        picture = np.full((24, 32, 3), 60 * number, np.uint8)
        cv2.imwrite(str(place / f"{number}.{ending}"), picture)
    (place / "notes.txt").write_text("not an image")
    return place


@pytest.fixture
def video(tmp_path):
    """A video of eight frames of rising brightness at 5 Hz."""
    path = tmp_path / "film.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 5.0, (64, 48))
    assert writer.isOpened()
    for number in range(8):
        writer.write(np.full((48, 64, 3), 30 * number, np.uint8))
    writer.release()
    return path


@pytest.fixture
def rgbd(tmp_path):
    """Write an RGB-D folder: brightness 20 n, depth 1000 + n."""

    def make(colour, depth, camera=None):
        for name, files in (("rgb", colour), ("depth", depth)):
            (tmp_path / name).mkdir()
            for number, file in enumerate(files):
                values = np.full((24, 32, 3), 20 * number, np.uint8)
                if name == "depth":
                    values = np.full((24, 32), 1000 + number, np.uint16)
                assert cv2.imwrite(str(tmp_path / name / file), values)
        if camera is not None:
            (tmp_path / "camera.json").write_text(json.dumps(camera))
        return tmp_path

    return make


def test_each_kind_of_recording_is_recognised(folder, video, rgbd):
    assert isinstance(open_recording(folder), ImageFolder)
    assert isinstance(open_recording(video), Video)
    assert isinstance(open_recording(rgbd(["a.jpg"], ["a.png"])), RgbdFolder)


def test_a_folder_gives_its_images_in_order(folder):
    source = ImageFolder(folder)
    assert [round(float(source.rgb(n).mean())) for n in range(len(source))] == [0, 60, 120]
    assert source.jpeg(0) == (folder / "0.jpg").read_bytes(), "a JPEG is passed on as it is"
    again = cv2.imdecode(np.frombuffer(source.jpeg(1), np.uint8), 1)
    assert abs(float(again.mean()) - 60) < 2
    assert not source.stamped
    assert source.stamp(1) - source.stamp(0) == 100_000_000
    assert source.camera_info(0) is None


def test_colours_are_red_green_blue(tmp_path):
    red = np.zeros((8, 8, 3), np.uint8)
    red[..., 2] = 200  # OpenCV writes blue, green, red
    cv2.imwrite(str(tmp_path / "red.png"), red)
    assert ImageFolder(tmp_path).rgb(0)[0, 0].tolist() == [200, 0, 0]


def test_a_video_can_be_read_forward_and_again(video):
    source = Video(video)
    assert (len(source), source.rate) == (8, 5.0)
    for number in (0, 1, 5, 2, 0, 7):
        assert abs(float(source.rgb(number).mean()) - 30 * number) < 4
    assert source.rgb(1).shape == (48, 64, 3)


def test_a_video_cut_short_becomes_as_long_as_it_is(video):
    source = Video(video)
    source._length = 20  # what a damaged header claims
    with pytest.raises(FrameError, match="ends before frame 15"):
        source.rgb(15)
    assert len(source) == 8


def test_osd_pairs_by_name_and_has_millimetres(rgbd):
    source = open_recording(rgbd(["learn0.jpg", "learn10.jpg"], ["learn0.png", "learn10.png"]))
    assert [source.depth_name(n) for n in range(2)] == ["learn0.png", "learn10.png"]
    assert source.depth(1).dtype == np.uint16
    assert source.depth(1)[0, 0] == 1001
    assert not source.stamped
    assert source.camera_info(0) is None


def test_tum_pairs_by_nearest_stamp_and_has_metres_and_stamps(rgbd):
    colour = ["100.000000.jpg", "100.040000.jpg", "100.081000.jpg"]
    depth = ["100.012000.png", "100.078000.png"]
    source = open_recording(rgbd(colour, depth, CAMERA | {"dist_k1k2p1p2k3": [1, 2, 3, 4, 5]}))
    assert source.stamped
    assert [source.stamp(n) for n in range(3)] == [100_000_000_000, 100_040_000_000,
                                                   100_081_000_000]  # fmt: skip
    assert [source.depth_name(n) for n in range(3)] == ["100.012000.png", None, "100.078000.png"]
    assert source.warnings == ["1 of 3 frames have no depth"]
    metres = source.depth(2)
    assert metres.dtype == np.float32
    assert metres[0, 0] == pytest.approx(1001 / 5000)
    with pytest.raises(FrameError, match="frame 1 has no depth"):
        source.depth(1)
    info = source.camera_info(0)
    assert (info.k[0], info.k[4], info.k[2], info.p[5]) == (50.0, 51.0, 15.5, 51.0)
    assert list(info.d) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert source.time(2) == pytest.approx(0.081)
    assert source.rate == pytest.approx(1 / 0.0405)


def test_the_lists_of_tum_decide_which_files_there_are(rgbd):
    place = rgbd(["a.png", "b.png", "c.png"], ["x.png", "y.png"])
    (place / "rgb.txt").write_text("# colour\n7.5 rgb/b.png\n7.0 rgb/a.png\n")
    (place / "depth.txt").write_text("# depth\n7.01 depth/x.png\n7.49 depth/../y.png\n")
    source = open_recording(place)
    assert [source.picture_name(n) for n in range(len(source))] == ["a.png", "b.png"]
    assert [source.depth_name(n) for n in range(2)] == ["x.png", "y.png"]
    assert source.stamp(1) == 7_500_000_000


def test_lists_that_are_pointers_of_git_lfs_are_ignored(rgbd):
    place = rgbd(["7.5.jpg"], ["7.51.png"])
    for name in ("rgb.txt", "depth.txt"):
        (place / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    assert open_recording(place).depth_name(0) == "7.51.png"


def test_the_tolerance_decides_which_depth_belongs_to_an_image(rgbd):
    place = rgbd(["7.500.jpg"], ["7.600.png"])
    with pytest.raises(RecordingError, match="depth_tolerance"):
        open_recording(place)
    far = RecordingOptions(depth_tolerance=0.2)
    assert open_recording(place, far).depth_name(0) == "7.600.png"


@pytest.mark.parametrize(
    "camera", [{}, CAMERA | {"fx": "wide"}, CAMERA | {"dist_k1k2p1p2k3": [1]}, [1, 2]]
)
def test_a_camera_file_that_describes_none_is_refused(rgbd, camera):
    with pytest.raises(RecordingError, match=r"camera\.json describes no camera"):
        open_recording(rgbd(["a.jpg"], ["a.png"], camera))


def test_what_is_no_recording_is_refused_with_the_reason(tmp_path):
    with pytest.raises(RecordingError, match="does not exist"):
        open_recording(tmp_path / "nothing")
    with pytest.raises(RecordingError, match="has no image"):
        open_recording(tmp_path)
    (tmp_path / "text.mp4").write_text("not a video")
    with pytest.raises(RecordingError, match="not a video"):
        open_recording(tmp_path / "text.mp4")
    (tmp_path / "old.bag").write_text("#ROSBAG V2.0")
    with pytest.raises(RecordingError, match="ROS 1"):
        open_recording(tmp_path / "old.bag")


def test_a_damaged_or_missing_file_is_a_frame_error(folder, rgbd):
    source = ImageFolder(folder)
    (folder / "1.png").unlink()
    with pytest.raises(FrameError, match="cannot be read"):
        source.rgb(1)
    place = rgbd(["a.jpg"], ["a.png"])
    (place / "depth/a.png").write_bytes(b"\x89PNG nothing")
    with pytest.raises(FrameError, match="16-bit"):
        open_recording(place).depth(0)
