# SPDX-License-Identifier: Apache-2.0
import json
import re
from dataclasses import asdict

import pytest

from newfound_sim.clip import FILE, ClipError, SeenObject, Truth, load_clip


def test_truth_survives_a_trip_through_json():
    truth = Truth((SeenObject(2, "mug", (1, 2, 3, 4), 0.5),), "", "a_b_c", "a", "d", 0.25)
    assert Truth.from_json(json.loads(json.dumps(asdict(truth)))) == truth


@pytest.mark.parametrize("box", [[1, 2, 3], [-1, 2, 3, 4], "abcd"])
def test_a_box_that_is_none_is_refused(box):
    objects = [{"instance": 1, "label": "mug", "box": box, "visible": 1.0}]
    with pytest.raises((ValueError, TypeError)):
        Truth.from_json({**asdict(Truth()), "objects": objects})


def test_a_clip_survives_its_folder(make_clip):
    clip = load_clip(make_clip(frames=3))
    assert (clip.rate, clip.width, clip.height) == (30.0, 64, 48)
    assert [frame.image for frame in clip.frames] == [f"images/{n}.jpg" for n in range(3)]
    assert clip.truths[clip.frames[2].truth].objects[0].box == (2, 2, 10, 12)
    assert clip.frames[1].depth == "depth/0.png"


def test_a_folder_without_the_file_is_no_clip(tmp_path):
    with pytest.raises(ClipError, match=r"has no clip\.json"):
        load_clip(tmp_path)
    with pytest.raises(ClipError, match="is no folder"):
        load_clip(tmp_path / "nothing")


def test_a_truncated_file_is_refused(make_clip):
    folder = make_clip()
    text = (folder / FILE).read_text()
    (folder / FILE).write_text(text[: len(text) // 2])
    with pytest.raises(ClipError, match="is damaged"):
        load_clip(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": "newfound-clip-9"}, "not of the format"),
        ({"frames": []}, "has no frames"),
        ({"rate": 0}, "cannot be"),
        ({"width": 10**6}, "cannot be"),
        ({"rate": "fast"}, "does not describe a clip"),
        ({"intrinsics": [1, 2, 3]}, "3 values, not 9"),
        ({"truths": []}, "a truth that is not there"),
        ({"truths": [{"objects": 3}]}, "does not describe a clip"),
        ({"frames": [{"time": 0, "image": "/etc/passwd", "truth": 0}]}, "outside of its folder"),
        ({"frames": [{"time": 0, "image": "../x.jpg", "truth": 0}]}, "outside of its folder"),
        ({"frames": [{"time": 0, "image": "x.jpg", "truth": 0}]}, "1 of 1 files are missing"),
        ({"frames": [{"time": 0}]}, "does not describe a clip"),
        (
            {"frames": [{"time": 0, "image": "x.jpg", "truth": 0, "pose": [0, 0, 1, 0, 0, 0, 0]}]},
            "a quaternion of length 1",
        ),
    ],
)
def test_a_file_that_says_impossible_things_is_refused(make_clip, change, told):
    folder = make_clip(frames=2)
    document = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps({**document, **change}))
    with pytest.raises(ClipError, match=re.escape(told)):
        load_clip(folder)
