# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import DataError
from newfound_training.running.files import read_json, write_json


def test_json_comes_back_as_it_was(tmp_path):
    write_json(tmp_path / "new" / "a.json", {"a": [1, 0.5, None, "ü"]})
    assert read_json(tmp_path / "new" / "a.json") == {"a": [1, 0.5, None, "ü"]}


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, 1)
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, float("nan"))
    assert read_json(path) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_damaged_file_is_a_data_error(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match=r"a\.json cannot be read"):
        read_json(tmp_path / "a.json")
