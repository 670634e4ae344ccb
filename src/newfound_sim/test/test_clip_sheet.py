# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_sim.__main__ import main
from newfound_sim.clip_sheet import annotated, clip_sheet
from newfound_sim.errors import SimulationError
from newfound_sim.truth import SeenObject, Truth


def test_frames_stand_in_rows_of_two(make_clip):
    folder = make_clip(frames=6, rate=1.0)
    sheet = clip_sheet(folder, [0, 2, 5], width=64)
    assert sheet.shape == (2 * 48, 2 * 64, 3)
    corners = [int(sheet[y, x].mean()) for y, x in ((1, 60), (1, 124), (49, 60), (49, 124))]
    assert corners == pytest.approx([0, 40, 100, 0], abs=2)
    with pytest.raises(SimulationError, match="no frame at 9 s"):
        clip_sheet(folder, [9])


def test_a_box_is_drawn_where_it_is():
    grey = np.full((60, 80, 3), 90, np.uint8)
    drawn = annotated(grey, Truth((SeenObject(1, "x", (20, 30, 40, 20), 1.0),)), "")
    assert drawn[40, 20].tolist() == [80, 255, 80]
    assert drawn[40, 40].tolist() == [90, 90, 90]
    assert grey.max() == 90, "the picture itself is left alone"


def test_the_command_writes_a_sheet(make_clip, tmp_path):
    out = tmp_path / "sheet.jpg"
    assert main(["sheet", "clip", str(make_clip()), "--times", "0", "0.1", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\xff\xd8")
