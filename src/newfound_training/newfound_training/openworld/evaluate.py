# SPDX-License-Identifier: Apache-2.0
"""`evaluate_openworld`: methods over class orders and seeds, as a table and figures."""

import logging
from typing import Any

from newfound_core.errors import ConfigError
from newfound_core.storage import write_bytes
from newfound_training.data import open_images
from newfound_training.openworld.cells import Cell, Cells
from newfound_training.openworld.figures import draw_steps, draw_trade_off
from newfound_training.openworld.options import EvaluateOpenWorldOptions
from newfound_training.openworld.settings import Setting, parse_row
from newfound_training.openworld.table import (
    Runs,
    best_rows,
    differences,
    markdown,
    rejection_markdown,
    rejection_summary,
    summary,
)
from newfound_training.running.command import Command
from newfound_training.running.data import require_same_images
from newfound_training.running.run import Run

BASELINE = "ncm"
_log = logging.getLogger(__name__)


def run_evaluate_openworld(options: EvaluateOpenWorldOptions, run: Run) -> dict[str, Any]:
    """Every cell that is missing, shared out among the processes; then tables and figures."""
    settings = parse_rows(options.rows)
    require_same_images(open_images(options.data, options.layout), run)
    cells = Cells(options, run)
    wanted = _all_cells(settings, options)
    cells.fill(wanted)
    if not run.team.leads:
        return {}
    rows = _rows(wanted, cells)
    summaries = {name: summary(runs) for name, runs in rows.items()}
    methods = {setting.name: setting.method for setting in settings}
    stepwise = {name: runs for name, runs in rows.items() if len(next(iter(runs.values()))) > 1}
    rejection = next((f for r in stepwise.values() if (f := rejection_summary(r))), {})
    _write_tables(summaries, stepwise, rejection, run)
    draw_steps({name: list(runs.values()) for name, runs in rows.items()}, run.out / "steps.png")
    last = {name: [records[-1] for records in runs.values()] for name, runs in rows.items()}
    draw_trade_off(last, run.out / "trade_off.png")
    return {
        "rows": summaries,
        "above_baseline": {
            name: differences(runs, rows[BASELINE])
            for name, runs in rows.items()
            if BASELINE in rows and name != BASELINE
        },
        "best": best_rows(stepwise, methods),
        "rejection": rejection,
    }


def parse_rows(rows: tuple[str, ...]) -> list[Setting]:
    """All rows; two whose results would be kept in one folder are refused."""
    settings = [parse_row(row) for row in rows]
    names: dict[str, str] = {}  # by folder; some file systems do not tell A from a
    for setting in settings:
        folder = setting.folder.casefold()
        if folder in names:
            raise ConfigError(
                f"the rows {names[folder]!r} and {setting.name!r} would be kept in one folder: "
                "give each a name of its own"
            )
        names[folder] = setting.name
    return settings


def _all_cells(settings: list[Setting], options: EvaluateOpenWorldOptions) -> list[Cell]:
    """Order by order, so that an interrupted table has something of every row."""
    return [
        Cell(setting, order, options.seed + seed)
        for seed in range(options.seeds)
        for order in range(options.orders)
        for setting in settings
    ]


def _rows(wanted: list[Cell], cells: Cells) -> dict[str, Runs]:
    rows: dict[str, dict[tuple[int, int], Any]] = {}
    for cell in wanted:
        rows.setdefault(cell.setting.name, {})[cell.order, cell.seed] = cells.records(cell)
    return dict(rows)


def _write_tables(
    summaries: dict[str, Any], stepwise: dict[str, Runs], rejection: dict[str, Any], run: Run
) -> None:
    parts = ["# After the last step\n", markdown(summaries, "last_step")]
    if stepwise:
        some = {name: summaries[name] for name in stepwise}
        parts += ["# Mean over the steps\n", markdown(some, "mean_over_steps")]
    if rejection:
        parts += ["# Rejection, mean over the steps\n", rejection_markdown(rejection)]
    text = "\n".join(parts)
    write_bytes(run.out / "table.md", text.encode())
    _log.info("%s", text)


COMMAND = Command(
    "evaluate-openworld",
    "Compares open-world methods over class orders and seeds.",
    EvaluateOpenWorldOptions,
    run_evaluate_openworld,
    {
        "rows": "for each row chosen (its rule of rejection), runs, known_classes after each "
        "step, and under both\n      rules, nearest_beyond and all_beyond, mean_over_steps, "
        "last_step and by_step: mean and\n      spread (standard deviation over runs) of "
        "closed_world_without_rejection,\n      closed_world_with_rejection, open_set, owr, "
        "owr_harmonic, auroc, correct_knowns_rejected,\n      unknowns_rejected, "
        "rejection_difference",
        "above_baseline": "for each row its OWR-H over the steps less that of the row ncm with "
        "the same order and seed:\n      mean, spread, and in how many of the runs it is above",
        "best": "for each method the row and rule (reject_when) with the highest OWR-H over the "
        "steps;\n      with --classes choice this is how settings are chosen",
        "rejection": "of the first bdoc row: thresholds class_specific, shared or by percentile, "
        "in two_stage (from held-out\n      samples) or one_stage (from those trained on)",
    },
)
