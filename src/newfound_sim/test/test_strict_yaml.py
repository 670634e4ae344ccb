# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from newfound_sim.errors import ScenarioError
from newfound_sim.strict_yaml import MAX_BYTES, read


@pytest.fixture
def document(tmp_path):
    def write(text: str | bytes):
        path = tmp_path / "file.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(path)

    return write


def test_values_come_out_with_their_types(document):
    fields = document("a: 3\nb: 2.5\nc: [1, 2.5]\nd: red").fields(["a", "b", "c", "d"])
    assert fields["a"].whole(0, 5) == 3
    assert fields["b"].number() == 2.5
    assert fields["c"].numbers(2, 0, 3) == (1.0, 2.5)
    assert fields["d"].choice(["red", "blue"]) == "red"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\n\nb: two", 3, "b must be a number, found 'two'"),
        ("a: 1\nb: yes", 2, "b must be a number, found 'yes'"),
        ("a: 1\nb: .inf", 2, "b must be a finite number"),
        ("a: 1\nb: !!int abc", 2, "b must be a finite number"),
        ("a: 1\nb: " + "9" * 400, 2, "b must be a finite number"),
        ("a: 1\nb:", 2, "b must be a number, found nothing"),
        ("a: 1\nb: [1]", 2, "b must be a number, found a list"),
        ("b: 1\nc: 2\na: 0", 2, "unknown key 'c'; the keys here are: a, b"),
        ("a: 1\nb: 2\na: 3", 3, "'a' is given twice"),
        ("a: 1", 1, "lacks the key 'b'"),
        ("- 1\n- 2", 1, "must be a mapping"),
        ("a: 1\nb: 'x", 2, "not YAML"),
        ("a: 1\n\tb: 2", 2, "not YAML"),
        (b"a: 1\nb: \xff", 2, "not UTF-8"),
        ("", 1, "empty"),
    ],
)
def test_a_wrong_value_is_refused_with_its_line(document, text, line, reason):
    with pytest.raises(ScenarioError, match=rf"file\.yaml:{line}: .*{re.escape(reason)}"):
        document(text).fields(["a", "b"])["b"].number()


def test_a_python_object_in_the_file_is_not_made(document, tmp_path):
    evidence = tmp_path / "evidence"
    text = f"a: 1\nb: !!python/object/apply:os.mkdir ['{evidence}']"
    with pytest.raises(ScenarioError, match="b must be a number"):
        document(text).fields(["a", "b"])["b"].number()
    assert not evidence.exists()


def test_a_file_that_is_missing_or_far_too_large_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        read(tmp_path / "none.yaml")
    large = tmp_path / "large.yaml"
    large.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(ScenarioError, match="at most"):
        read(large)
