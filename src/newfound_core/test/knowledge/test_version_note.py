# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.knowledge.version_note import (
    NAME,
    ClassNote,
    VersionNote,
    classes_after,
    read_note,
    write_note,
)


def test_a_note_comes_back_as_it_was_written(tmp_path):
    note = VersionNote("learned 'mug'", 12.5, {"Tasse ☕": ClassNote("learned", 3, 12.5)}, "j1")
    write_note(tmp_path, note)
    assert read_note(tmp_path) == note


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"format": 2}', '{"format": 1, "classes": 5}', "\xff",
     '{"format": 1, "reason": "", "made": 0, "job": "", "classes": {"a": {"origin": "x"}}}'],
)  # fmt: skip
def test_a_damaged_note_is_no_note(tmp_path, content):
    (tmp_path / NAME).write_text(content, encoding="latin-1")
    assert read_note(tmp_path) is None


def test_a_missing_note_is_no_note(tmp_path):
    assert read_note(tmp_path) is None


def test_old_classes_keep_their_notes_and_new_ones_are_learned_now():
    before = VersionNote("shipped", 1.0, {"mug": ClassNote("shipped", 1, 0.0)})
    after = classes_after(before, ["mug", "fork"], version=4, made=9.0)
    assert after == {"mug": ClassNote("shipped", 1, 0.0), "fork": ClassNote("learned", 4, 9.0)}


def test_classes_of_the_first_version_are_shipped():
    assert classes_after(None, ["mug"], 1, 9.0) == {"mug": ClassNote("shipped", 1, 0.0)}
