# SPDX-License-Identifier: Apache-2.0
from tests.bench.__main__ import NOTES, page


def test_a_table_made_anew_takes_its_old_place_and_all_else_is_kept():
    old = page("", ["## alpha\n\nold alpha\n", "## beta (short run)\n\nold beta\n"])
    old += f"{NOTES}\n\n- written by hand\n"
    new = page(old, ["## beta\n\nnew beta\n", "## aa\n\nnew aa\n"])
    assert new == old.replace("## alpha", "## aa\n\nnew aa\n\n## alpha").replace(
        "## beta (short run)\n\nold beta", "## beta\n\nnew beta"
    )
    assert page(new, []) == new
