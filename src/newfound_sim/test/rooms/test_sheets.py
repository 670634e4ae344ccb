# SPDX-License-Identifier: Apache-2.0
from newfound_sim.rooms.sheets import walk_sheet


def test_the_walk_has_a_tile_for_every_frame():
    sheet = walk_sheet("loft", frames=2, size=(32, 24), samples=1)
    assert sheet.shape == (5 * (24 + 16 + 2), 4 * (32 + 2), 3)
