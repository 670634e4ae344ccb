# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest

from newfound_core.errors import ConfigError
from newfound_training.online.options import OnlineOptions
from newfound_training.online.tables import (
    accuracies,
    average_of,
    by_changes,
    changed,
    changes_markdown,
    confusions,
    curve,
    gap_closed,
    markdown,
    mean_of,
    only_changed,
    row_of,
)
from newfound_training.running.options import read_preset


def test_accuracy_after_a_share_is_that_of_the_next_tenth():
    correct = np.zeros(100, bool)
    correct[25:30] = True  # half of the tenth after 25
    correct[90:100] = True
    found = accuracies(correct)
    assert found["after_25"] == 0.5
    assert found["after_50"] == 0.0
    assert found["after_90"] == 1.0
    assert found["last_half"] == pytest.approx(0.2)
    assert found["all"] == pytest.approx(0.15)


def test_a_very_short_stream_still_has_accuracies():
    assert accuracies(np.array([True]))["last_half"] == 1.0


def test_the_closed_share_of_the_gap():
    assert gap_closed(0.5, source_only=0.3, re_estimated=0.7) == pytest.approx(0.5)
    assert gap_closed(0.2, source_only=0.3, re_estimated=0.7) == pytest.approx(-0.25)


def test_without_a_gap_there_is_no_share_of_it():
    assert gap_closed(0.5, source_only=0.3, re_estimated=0.31) is None
    # Where the target's own statistics do harm, following them is not a success of 100 %.
    assert gap_closed(0.74, source_only=0.88, re_estimated=0.73) is None


def test_means_are_taken_name_by_name():
    assert mean_of([{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 0.0}]) == {"a": 0.5, "b": 0.0}


def test_the_curve_is_a_moving_mean_over_time_and_streams():
    streams = [np.array([1, 1, 0, 0, 1] * 2, bool), np.array([1, 0, 0, 0, 0] * 2, bool)]
    frames, values = curve(streams, window=2)
    together = np.mean(streams, axis=0)
    np.testing.assert_allclose(values, (together[:-1] + together[1:]) / 2)
    assert frames[0] == 2
    assert frames[-1] == 10


CONDITIONS = ("illumination", "camera", "background")


def changed_row(source, target, source_only, batch):
    values = {"source_only": source_only, "batch": batch, "re_estimated": 0.9}
    return {"source": source, "target": target} | {
        name: {"last_half": value} for name, value in values.items()
    }


ROWS = [
    changed_row("sun_old_white", "rain_old_white", 0.6, 0.7),
    changed_row("sun_old_white", "sun_new_white", 0.5, 0.8),
    changed_row("sun_old_white", "rain_new_brown", 0.2, 0.6),
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


def row(source_only, batch, re_estimated):
    columns = ("after_25", "after_50", "after_90", "last_half")
    values = {"source_only": source_only, "batch": batch, "re_estimated": re_estimated}
    made = {name: dict.fromkeys(columns, value) for name, value in values.items()}
    made["batch"]["gap_closed"] = gap_closed(batch, source_only, re_estimated)
    return made | {"source": "a", "target": "b"}


def test_the_average_gap_is_that_of_the_averages_beside_the_mean_of_the_pairs():
    average = average_of([row(0.2, 0.6, 0.6), row(0.5, 0.5, 0.6)], ["batch"])
    assert average["batch"]["last_half"] == pytest.approx(0.55)
    assert average["batch"]["gap_closed"] == pytest.approx(0.4 / 0.5)
    assert average["batch"]["mean_gap_closed"] == pytest.approx(0.5)
    assert average["batch"]["pairs_with_gap"] == 2


def test_a_pair_that_adaptation_harms_counts_in_the_average_but_has_no_share():
    rows = [row(0.2, 0.6, 0.6), row(0.9, 0.8, 0.8)]
    average = average_of(rows, ["batch"])
    assert rows[1]["batch"]["gap_closed"] is None
    assert average["batch"]["last_half"] == pytest.approx(0.7)
    assert average["batch"]["gap_closed"] == pytest.approx(0.15 / 0.15)
    assert average["batch"]["mean_gap_closed"] == pytest.approx(1.0)
    assert average["batch"]["pairs_with_gap"] == 1


def test_the_table_has_a_line_for_every_method_of_every_pair_and_the_average():
    rows = [row(0.2, 0.6, 0.6), row(0.5, 0.5, 0.6)]
    text = markdown(rows, average_of(rows, ["batch"]))
    assert len(text.splitlines()) == 2 + 3 * 3
    assert "| a → b | source only | 20.0 | 20.0 | 20.0 | 20.0 |  |" in text
    assert "100 %" in text


def test_two_domain_training_has_a_line_where_it_was_run():
    rows = [row(0.2, 0.6, 0.6), row(0.5, 0.5, 0.6) | {"dial": 0.75}]
    lines = markdown(rows, average_of(rows, ["batch"])).splitlines()
    (dial,) = (line for line in lines if "DIAL" in line)
    assert lines.index(dial) == 2 + 3 + 3  # the last of its pair
    assert [cell.strip() for cell in dial.split("|")][-4:] == ["", "75.0", "", ""]
    assert dial.count("|") == lines[0].count("|")


def test_a_row_compares_all_methods_on_the_same_frames(target):
    found = row_of(target, OnlineOptions(orders=2, frames_per_update=5))
    assert (found["frames"], found["orders"]) == (24, 2)
    everything = target.bounds()["source_only"].mean()
    assert found["source_only"]["all"] == pytest.approx(everything)
    for name in ("source_only", "re_estimated", "batch", "streaming"):
        assert 0 <= found[name]["last_half"] <= 1


def test_confusions_count_every_prediction_of_every_method(target):
    options = OnlineOptions(orders=2, frames_per_update=5)
    found = confusions([target, target], options)
    assert {name: matrix.sum() for name, matrix in found.items()} == {
        "source only": 48,
        "batch": 96,
        "streaming": 96,
        "re-estimated": 48,
    }
    accuracy = found["source only"].trace() / 48
    assert accuracy == pytest.approx(target.bounds()["source_only"].mean())
