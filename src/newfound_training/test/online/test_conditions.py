# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.errors import ConfigError
from newfound_training.online.conditions import (
    by_changes,
    changed,
    changes_markdown,
    only_changed,
)
from newfound_training.running.options import read_preset

CONDITIONS = ("illumination", "camera", "background")


def row(source, target, source_only, batch):
    values = {"source_only": source_only, "batch": batch, "re_estimated": 0.9}
    return {"source": source, "target": target} | {
        name: {"last_half": value} for name, value in values.items()
    }


ROWS = [
    row("sun_old_white", "rain_old_white", 0.6, 0.7),
    row("sun_old_white", "sun_new_white", 0.5, 0.8),
    row("sun_old_white", "rain_new_brown", 0.2, 0.6),
]


def test_the_quick_workbench_has_one_two_and_three_changes():
    preset = read_preset("evaluate-online", "workbench_quick")
    pairs = [pair.split(":") for pair in preset["pairs"]]
    assert [len(changed(*pair, preset["conditions"])) for pair in pairs] == [1, 2, 3]


def test_names_tell_which_conditions_changed():
    assert changed("sun_old_white", "rain_old_brown", CONDITIONS) == ["illumination", "background"]
    assert changed("sun-old-white", "sun-old-white", CONDITIONS) == []
    with pytest.raises(ConfigError, match="'photo' has 1 parts"):
        changed("photo", "sun_old_white", CONDITIONS)


def test_gains_are_averaged_over_pairs_with_equally_many_changes():
    found = by_changes(ROWS, CONDITIONS)
    assert list(found) == ["1", "3"]
    assert found["1"]["pairs"] == 2
    assert found["1"]["batch"] == pytest.approx(0.75)
    assert found["1"]["batch_gain"]["mean"] == pytest.approx(0.2)
    expected = np.std([0.1, 0.3], ddof=1) / np.sqrt(2)
    assert found["1"]["batch_gain"]["standard_error"] == pytest.approx(expected)
    assert found["3"]["batch_gain"]["standard_error"] is None


def test_single_changes_are_told_apart():
    found = only_changed(ROWS, CONDITIONS)
    assert list(found) == ["illumination", "camera"]
    assert found["camera"]["batch_gain"]["mean"] == pytest.approx(0.3)


def test_without_conditions_there_are_no_groups():
    assert by_changes(ROWS, ()) == only_changed(ROWS, ()) == {}


def test_the_table_has_a_line_for_each_group():
    text = changes_markdown(by_changes(ROWS, CONDITIONS), "conditions changed")
    assert "| 1 | 2 | 55.0 | 75.0 | 90.0 | +20.0 ± 10.0 | +35.0 ± 5.0 |" in text
    assert "| 3 | 1 | 20.0 | 60.0 | 90.0 | +40.0 | +70.0 |" in text
