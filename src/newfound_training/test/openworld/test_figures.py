# SPDX-License-Identifier: Apache-2.0
from newfound_training.openworld.figures import draw_steps, draw_trade_off


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
