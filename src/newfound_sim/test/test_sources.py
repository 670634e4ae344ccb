# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest

from newfound_runtime.file_recordings import ImageFolder
from newfound_runtime.recordings import FrameError, RecordingError
from newfound_sim.clip import ClipError, load_clip
from newfound_sim.sources import (
    ClipSource,
    LabelledFolder,
    find_source,
    objects_of,
    open_source,
    truth_of,
)


@pytest.fixture
def labelled(tmp_path):
    """One scene in the layout of OSD, with a table and two objects, one of two parts."""
    for name in ("rgb", "depth", "label"):
        (tmp_path / name).mkdir()
    cv2.imwrite(str(tmp_path / "rgb/learn0.jpg"), np.full((24, 32, 3), 60, np.uint8))
    cv2.imwrite(str(tmp_path / "depth/learn0.png"), np.full((24, 32), 900, np.uint16))
    label = np.zeros((24, 32), np.uint8)
    label[12:] = 1
    label[2:6, 3:8], label[6:10, 3:9] = 20, 21
    label[10:20, 20:30] = 30
    cv2.imwrite(str(tmp_path / "label/learn0.png"), label)
    return tmp_path


def test_each_kind_of_source_is_recognised(make_clip, labelled):
    assert isinstance(open_source(make_clip()), ClipSource)
    assert isinstance(open_source(labelled), LabelledFolder)
    assert isinstance(open_source(labelled / "rgb"), ImageFolder)


def test_a_clip_gives_pictures_depth_truth_and_times(make_clip):
    source = ClipSource(make_clip(frames=4))
    assert len(source) == 4
    assert abs(int(source.rgb(3).mean()) - 60) <= 1
    assert source.depth(3)[0, 0] == 501
    assert source.truth(3).objects[0].box[0] == 3
    assert source.time(3) == pytest.approx(0.1)
    assert source.has_depth
    assert source.jpeg(1).startswith(b"\xff\xd8")
    assert source.camera_info(0).k[0] == 50.0


def test_labels_of_osd_are_boxes_of_objects_without_the_table(labelled):
    source = open_source(labelled)
    truth = truth_of(source, 0)
    assert [seen.box for seen in truth.objects] == [(3, 2, 6, 8), (20, 10, 10, 10)]
    assert {seen.label for seen in truth.objects} == {"object"}
    assert objects_of(np.zeros((4, 4), np.uint8)) == ()


def test_a_frame_without_a_label_image_has_no_truth(labelled):
    (labelled / "label/learn0.png").unlink()
    assert truth_of(open_source(labelled), 0) is None
    assert truth_of(open_source(labelled / "rgb"), 0) is None


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


def test_what_is_no_source_is_refused_with_the_reason(tmp_path):
    with pytest.raises(RecordingError, match="does not exist"):
        open_source(tmp_path / "nothing")
    (tmp_path / "unfinished" / "images").mkdir(parents=True)
    with pytest.raises(ClipError, match="interrupted"):
        open_source(tmp_path / "unfinished")


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


def test_the_real_recording_is_installed_small_and_whole():
    folder = find_source("real_table")
    source = open_source(folder)
    assert (len(source), source.warnings) == (6, [])
    assert sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) < 1e6
    for number in range(len(source)):
        assert source.rgb(number).shape == (480, 640, 3)
        assert source.depth(number).max() > 500
    assert source.camera_info(0).k[0] == 525.0


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(RecordingError, match="workbench_demo"):
        find_source("no_such_clip")
    with pytest.raises(RecordingError, match="no source is given"):
        find_source("")
