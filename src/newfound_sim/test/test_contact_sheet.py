# SPDX-License-Identifier: Apache-2.0
import numpy as np
from newfound_sim.contact_sheet import CAPTION, contact_sheet


def test_pictures_keep_their_order_and_the_last_row_is_filled():
    pictures = [np.full((20, 30, 3), value, np.uint8) for value in (10, 60, 110)]
    sheet = contact_sheet(pictures, ["a", "b", "c"], columns=2)
    assert sheet.shape == (2 * (20 + CAPTION + 2), 2 * 32, 3)
    assert sheet[5, 5, 0] == 10
    assert sheet[5, 40, 0] == 60
    assert sheet[20 + CAPTION + 8, 5, 0] == 110
    assert (sheet[-5, -5] == 255).all()
