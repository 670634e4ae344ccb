# SPDX-License-Identifier: Apache-2.0
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newfound_web.text import folder_name, label_problem, one_line, same_name, without_markup


def test_text_from_elsewhere_becomes_one_printable_line():
    assert one_line("a\n\x1b[31mb\x00\t c") == "a [31mb c"
    assert one_line("x" * 500, 10) == "x" * 9 + "…"
    assert one_line({"not": "text"}) == ""


def test_markup_is_taken_away():
    artist = '<a href="//x.example" onclick="evil()">Ann &amp; Bob</a><script>1</script>'
    assert without_markup(artist) == "Ann & Bob 1"


@pytest.mark.parametrize("label", ["", "   ", "a\nb", "a\x00", "x" * 101, "\u202eevil"])
def test_what_cannot_be_a_label_is_told(label):
    assert label_problem(label)


@pytest.mark.parametrize("label", ["teapot", "Tasse à café", "湯呑み", "../../etc/passwd"])
def test_any_printable_words_can_be_a_label(label):
    assert label_problem(label) is None


def test_labels_are_the_same_however_they_are_written():
    assert same_name("Coffee_Mug") == same_name("coffee  mug") == same_name("COFFEE-MUG")


@given(st.text(st.sampled_from("aZ9 ._-/\\\0\n~$é湯\u202e'\""), min_size=1, max_size=100))
def test_a_folder_name_is_always_a_plain_one(label):
    assert re.fullmatch(r"[a-z0-9_]{1,40}-[0-9a-f]{8}", folder_name(label))


def test_different_labels_have_different_folders():
    labels = ["a b", "a_b", "a/b", "A b", "..", "../..", "湯", "茶"]
    assert len({folder_name(label) for label in labels}) == len(labels)
