# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
from newfound_sim.contact_sheet import CAPTION, LARGE, contact_sheet, sheet_of_folder
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
