# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_training.online.measures import gap_closed
from newfound_training.online.options import OnlineOptions
from newfound_training.online.table import average_of, confusions, markdown, row_of


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
