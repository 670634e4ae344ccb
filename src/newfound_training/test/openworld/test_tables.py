# SPDX-License-Identifier: Apache-2.0

import json

import pytest

from newfound_training.openworld.tables import (
    METRICS,
    REJECTION,
    best_rows,
    differences,
    draw_steps,
    draw_trade_off,
    markdown,
    rejection_markdown,
    rejection_summary,
    summary,
)


def metrics(nearest, everyone):
    """Every metric of a rule has the same value."""
    names = (*METRICS, *REJECTION)
    return {
        "chosen": "nearest_beyond",
        "nearest_beyond": dict.fromkeys(names, nearest),
        "all_beyond": dict.fromkeys(names, everyone),
    }


def steps(*values, everyone=0.0):
    return [
        {
            "known_classes": 4 + 2 * number,
            "metrics": metrics(value, everyone),
            "rejection": {"shared": metrics(value and value / 2, 0.0)},
        }
        for number, value in enumerate(values)
    ]


@pytest.fixture
def runs():
    return {(0, 0): steps(0.2, 0.4), (1, 0): steps(0.4, 0.8)}


def test_means_and_spreads_are_those_over_runs(runs):
    found = summary(runs)
    chosen = found["nearest_beyond"]
    assert found["known_classes"] == [4, 6]
    assert chosen["mean_over_steps"]["owr"] == pytest.approx({"mean": 0.45, "spread": 0.15})
    assert chosen["last_step"]["owr"] == pytest.approx({"mean": 0.6, "spread": 0.2})
    assert chosen["by_step"][0]["owr"]["mean"] == pytest.approx(0.3)


def test_what_could_not_be_measured_stays_empty():
    found = summary({(0, 0): steps(None)})
    assert found["nearest_beyond"]["last_step"]["auroc"] is None
    assert "|  |" in markdown({"row": found}, "last_step")


def test_differences_pair_runs_of_the_same_order_and_seed(runs):
    baseline = {(0, 0): steps(0.1, 0.3), (1, 0): steps(0.5, 0.9)}
    found = differences(runs, baseline)
    assert found["mean"] == pytest.approx(0.0)
    assert (found["above"], found["of"]) == (1, 2)


def test_runs_of_another_length_are_not_compared(runs):
    assert differences(runs, {(0, 0): steps(0.1)}) is None


def test_the_best_row_of_a_method_may_decide_by_the_other_rule(runs):
    rows = {"a": runs, "b": {(0, 0): steps(0.1, 0.1, everyone=0.9)}}
    best = best_rows(rows, {"a": "bdoc", "b": "bdoc"})
    assert best["bdoc"]["row"] == "b"
    assert best["bdoc"]["reject_when"] == "all_beyond"


def test_the_ablation_is_averaged_over_steps_and_runs(runs):
    found = rejection_summary(runs)
    assert found["shared"]["owr_harmonic"]["mean"] == pytest.approx(0.225)
    assert "| shared | 22.5 ± 7.5 |" in rejection_markdown(found)


def test_an_ablation_without_unknowns_stays_empty_and_fits_json(runs):
    found = rejection_summary({(0, 0): steps(None, None)})
    assert found["shared"]["owr_harmonic"] is None
    json.dumps(found, allow_nan=False)
    assert "| shared |  |" in rejection_markdown(found)
    some = rejection_summary({**runs, (2, 0): steps(None, 0.1)})
    assert some == rejection_summary(runs)  # of runs that cannot be averaged nothing is used


def test_a_table_shows_percent(runs):
    assert "| row | 60.0 ± 20.0 |" in markdown({"row": summary(runs)}, "last_step")


def test_every_figure_is_written(make_incremental, tmp_path):
    outcome = make_incremental("ncm").run()
    draw_steps({"one": [outcome.records], "two": [outcome.records] * 2}, tmp_path / "steps.png")
    draw_trade_off({"one": [outcome.records[-1]]}, tmp_path / "trade_off.png")
    found = sorted(p.name for p in tmp_path.glob("*.png"))
    assert found == ["steps.png", "trade_off.png"]
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in tmp_path.glob("*.png"))


def test_metrics_without_unknowns_leave_gaps(make_incremental, tmp_path):
    records = make_incremental("ncm").run().records
    for record in records:
        record["metrics"]["nearest_beyond"]["auroc"] = None
    draw_steps({"one": [records]}, tmp_path / "steps.png")
    assert (tmp_path / "steps.png").stat().st_size
