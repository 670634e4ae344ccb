# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.knowledge.labels import problem_with_label


@pytest.mark.parametrize("label", ["mug", "a", "x" * 100, "Tasse ☕", "flat screwdriver", "n.5"])
def test_ordinary_names_are_fine(label):
    assert problem_with_label(label) is None


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("", "empty"), ("   ", "empty"), ("x" * 101, "101 characters"), ("x" * 10_000, "10000"),
        ("../etc", "path"), ("a\\b", "path"), ("..", "path"), (".", "path"), ("/", "path"),
        ("a\nb", "printed"), ("\0", "printed"), ("a\u202eb", "printed"), (" mug", "space"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_are_refused_with_the_reason(label, reason):
    problem = problem_with_label(label)
    assert reason in problem
    assert len(problem) < 200
