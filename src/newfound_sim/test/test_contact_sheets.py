# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest

from newfound_sim import contact_sheets as sheets
from newfound_sim.__main__ import main
from newfound_sim.clip import SeenObject, Truth
from newfound_sim.contact_sheets import (
    CAPTION,
    LARGE,
    annotated,
    clip_sheet,
    contact_sheet,
    sheet_of_folder,
    walk_sheet,
)
from newfound_sim.errors import SimulationError
from newfound_sim.production import write_jpeg


def test_pictures_keep_their_order_and_the_last_row_is_filled():
    pictures = [np.full((20, 30, 3), value, np.uint8) for value in (10, 60, 110)]
    sheet = contact_sheet(pictures, ["a", "b", "c"], columns=2)
    assert sheet.shape == (2 * (20 + CAPTION + 2), 2 * 32, 3)
    assert sheet[5, 5, 0] == 10
    assert sheet[5, 40, 0] == 60
    assert sheet[20 + CAPTION + 8, 5, 0] == 110
    assert (sheet[-5, -5] == 255).all()


def test_a_folder_becomes_a_row_for_each_domain(tmp_path):
    for domain, kinds in {"a": ["mug", "key"], "b": ["mug"]}.items():
        for kind in kinds:
            write_jpeg(tmp_path / domain / kind / "00000.jpg", np.full((32, 32, 3), 90, np.uint8))
    sheet = cv2.imread(str(sheet_of_folder(tmp_path)))
    assert sheet.shape == (2 * (LARGE + CAPTION + 2), 2 * (LARGE + 2), 3)
    assert abs(int(sheet[10, 10, 0]) - 90) < 3
    assert sheet[-40, -40, 0] > 250  # domain b has no key


def test_a_detection_set_shows_its_scenes_by_domain(tmp_path):
    for number in range(6):
        picture = np.full((48, 64, 3), 60, np.uint8)
        write_jpeg(tmp_path / "a" / "images" / f"{number:06d}.jpg", picture)
    (tmp_path / "a" / "truth").mkdir()
    sheet = cv2.imread(str(sheet_of_folder(tmp_path)))
    assert sheet.shape[1] == 4 * (round(LARGE * 4 / 3) + 2)


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


def test_the_sheets_show_what_they_name():
    classes = sheets.classes_sheet(["mug", "key"], each=1, size=24, samples=1)
    assert classes.shape[1] == 3 * 26
    domains = sheets.domains_sheet(32, 24, samples=1)
    assert domains.shape == (3 * (24 + 18), 4 * 34, 3)
    drift = sheets.drift_sheet(32, 24, samples=1)
    assert drift.shape == (2 * (24 + 18), 4 * 34, 3)


def test_the_walk_has_a_tile_for_every_frame():
    sheet = walk_sheet("loft", frames=2, size=(32, 24), samples=1)
    assert sheet.shape == (5 * (24 + 16 + 2), 4 * (32 + 2), 3)
