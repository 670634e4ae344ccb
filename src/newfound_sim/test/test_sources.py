# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest

from newfound_sim.clip import ClipError, load_clip
from newfound_sim.sources import (
    ClipSource,
    FolderSource,
    FrameError,
    SourceError,
    VideoSource,
    find_source,
    open_source,
)


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


def test_each_kind_of_source_is_recognised(make_clip, folder, video):
    assert isinstance(open_source(make_clip()), ClipSource)
    assert isinstance(open_source(folder), FolderSource)
    assert isinstance(open_source(video), VideoSource)


def test_a_clip_gives_pictures_depth_truth_and_times(make_clip):
    source = ClipSource(make_clip(frames=4))
    assert len(source) == 4
    assert abs(int(source.rgb(3).mean()) - 60) <= 1
    assert source.depth(3)[0, 0] == 501
    assert source.truth(3).objects[0].box[0] == 3
    assert source.time(3) == pytest.approx(0.1)
    assert source.has_depth
    assert source.jpeg(1).startswith(b"\xff\xd8")


def test_a_folder_gives_its_images_in_order_and_no_truth(folder):
    source = FolderSource(folder)
    assert [round(float(source.rgb(n).mean())) for n in range(len(source))] == [0, 60, 120]
    assert source.truth(0) is None
    assert source.jpeg(0) == (folder / "0.jpg").read_bytes(), "a JPEG is passed on as it is"
    again = cv2.imdecode(np.frombuffer(source.jpeg(1), np.uint8), 1)
    assert abs(float(again.mean()) - 60) < 2


def test_colours_are_red_green_blue(tmp_path):
    red = np.zeros((8, 8, 3), np.uint8)
    red[..., 2] = 200  # OpenCV writes blue, green, red
    cv2.imwrite(str(tmp_path / "red.png"), red)
    assert FolderSource(tmp_path).rgb(0)[0, 0].tolist() == [200, 0, 0]


def test_a_video_can_be_read_forward_and_again(video):
    source = VideoSource(video)
    assert (len(source), source.rate) == (8, 5.0)
    for number in (0, 1, 5, 2, 0, 7):
        assert abs(float(source.rgb(number).mean()) - 30 * number) < 4
    assert source.rgb(1).shape == (48, 64, 3)


def test_a_video_cut_short_becomes_as_long_as_it_is(video):
    source = VideoSource(video)
    source._length = 20  # what a damaged header claims
    with pytest.raises(FrameError, match="ends before frame 15"):
        source.rgb(15)
    assert len(source) == 8


@pytest.mark.parametrize("damage", [b"", b"\xff\xd8junk", b"\x00" * 100, None])
def test_a_damaged_image_is_a_frame_error(make_clip, damage):
    folder = make_clip(frames=3)
    path = folder / "images/1.jpg"
    path.write_bytes(path.read_bytes()[:200] if damage is None else damage)
    source = ClipSource(folder)
    with pytest.raises(FrameError, match=r"1\.jpg is not an image"):
        source.rgb(1)
    assert source.rgb(2).shape == (48, 64, 3)


def test_an_image_or_depth_of_another_size_is_a_frame_error(make_clip):
    folder = make_clip()
    cv2.imwrite(str(folder / "images/1.jpg"), np.zeros((10, 10, 3), np.uint8))
    cv2.imwrite(str(folder / "depth/0.png"), np.zeros((10, 10), np.uint16))
    cv2.imwrite(str(folder / "depth/1.png"), np.zeros((48, 64), np.uint8))
    source = ClipSource(folder)
    with pytest.raises(FrameError, match="10x10 pixels, the clip 64x48"):
        source.rgb(1)
    with pytest.raises(FrameError, match="10x10"):
        source.depth(0)
    with pytest.raises(FrameError, match="16-bit"):
        source.depth(2)


def test_a_file_that_vanished_is_a_frame_error(folder):
    source = FolderSource(folder)
    (folder / "1.png").unlink()
    with pytest.raises(FrameError, match="cannot be read"):
        source.rgb(1)


def test_what_is_no_source_is_refused_with_the_reason(tmp_path):
    with pytest.raises(SourceError, match="does not exist"):
        open_source(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="neither a clip"):
        open_source(tmp_path / "empty")
    (tmp_path / "unfinished" / "images").mkdir(parents=True)
    with pytest.raises(ClipError, match="interrupted"):
        open_source(tmp_path / "unfinished")
    (tmp_path / "text.mp4").write_text("not a video")
    with pytest.raises(SourceError, match="not a video"):
        open_source(tmp_path / "text.mp4")


def test_a_path_is_taken_as_it_is(tmp_path):
    assert find_source(str(tmp_path)) == tmp_path
    assert find_source("/nowhere/at/all").name == "all"


def test_the_demo_clip_is_installed_small_and_whole():
    folder = find_source("workbench_demo")
    clip = load_clip(folder)
    source = ClipSource(folder)
    assert source.rgb(0).shape == (clip.height, clip.width, 3)
    assert sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) < 6e6
    labels = [{o.label for o in clip.truths[f.truth].objects} for f in clip.frames]
    assert "teapot" not in labels[0]
    assert "teapot" in labels[-1]
    domains = [clip.truths[f.truth].domain for f in clip.frames]
    assert (domains[0], domains[-1]) == ("artificial_webcam_brown", "directed_webcam_brown")


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(SourceError, match="workbench_demo"):
        find_source("no_such_clip")
    with pytest.raises(SourceError, match="no source is given"):
        find_source("")
