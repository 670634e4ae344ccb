# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.knowledge.labels import find_label, label_problem, normalise_label, same_label


@pytest.mark.parametrize("label", ["mug", "a", "x" * 100, "Tasse ☕", "flat screwdriver", "n.5"])
def test_ordinary_names_are_fine(label):
    assert label_problem(label) is None


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("", "empty"), ("   ", "empty"), ("x" * 101, "101 characters"), ("x" * 10_000, "10000"),
        ("../etc", "path"), ("a\\b", "path"), ("..", "path"), (".", "path"), ("/", "path"),
        ("a\nb", "printed"), ("\0", "printed"), ("a\u202eb", "printed"), (" mug", "space"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_are_refused_with_the_reason(label, reason):
    problem = label_problem(label)
    assert reason in problem
    assert len(problem) < 200


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("mug", "Mug"),
        ("caf\u00e9", "cafe\u0301"),
        ("CAF\u00c9", "cafe\u0301"),
        ("Stra\u00dfe", "STRASSE"),
    ],
)
def test_letter_case_and_composition_make_no_other_class(one, other):
    assert same_label(one, other)
    assert find_label(one, ["bowl", other]) == other


def test_other_labels_are_other_classes():
    assert not same_label("mug", "mugs")
    assert find_label("mug", ["mugs", "m\u00fcg"]) is None


def test_labels_are_stored_composed():
    assert normalise_label("cafe\u0301") == "caf\u00e9"
