# SPDX-License-Identifier: Apache-2.0
"""`evaluate_openworld`: methods over class orders and seeds, as a table and figures.

Each run behind the table is kept in a small file as soon as it is done. An interrupted table goes
on with the first run that has no file, and within that run with the last finished epoch.
"""

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from newfound_core.errors import ConfigError
from newfound_core.frozen_features import split_frozen
from newfound_core.storage import read_json, write_bytes, write_json
from newfound_training.data import ImageSet, open_images
from newfound_training.openworld.dataset import (
    ImageGroups,
    OpenWorldDataset,
    Protocol,
    build_network,
    chosen_classes,
    load_dataset,
    load_groups,
    make_protocol,
)
from newfound_training.openworld.incremental import Incremental
from newfound_training.openworld.options import EvaluateOpenWorldOptions, Setting, parse_row
from newfound_training.openworld.tables import (
    Runs,
    best_rows,
    differences,
    draw_steps,
    draw_trade_off,
    markdown,
    rejection_markdown,
    rejection_summary,
    summary,
)
from newfound_training.running.command import Command, Run, require_same_images

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableRun:
    """One run: a setting, an order of the classes, a seed."""

    setting: Setting
    order: int
    seed: int

    def path(self, folder: Path) -> Path:
        """File of its result."""
        name = f"order{self.order}-seed{self.seed}.json"
        return folder / "runs" / self.setting.folder / name


class TableRuns:
    """Results of runs, computed when they are not there yet."""

    def __init__(self, options: EvaluateOpenWorldOptions, run: Run) -> None:
        self._options, self._run = options, run
        self._loaded: tuple[ImageGroups, OpenWorldDataset, int] | None = None

    def fill(self, wanted: Sequence[TableRun]) -> None:
        """Compute what is missing; of several processes each does some of the runs."""
        missing = [table_run for table_run in wanted if not table_run.path(self._run.out).exists()]
        if missing:
            with self._run.process_group.main_process_first():
                self._data()
        for table_run in self._run.process_group.shard(missing):
            self.records(table_run)
        self._run.process_group.barrier()

    def records(self, table_run: TableRun) -> list[dict[str, Any]]:
        """Measurements after each step."""
        path = table_run.path(self._run.out)
        if not path.exists():
            records = self._compute(table_run, path.with_suffix(".state"))
            write_json(path, {"row": table_run.setting.name, "steps": records})
            shutil.rmtree(path.with_suffix(".state"), ignore_errors=True)
            _report(table_run, records)
        return read_json(path)["steps"]

    def _data(self) -> tuple[ImageGroups, OpenWorldDataset, int]:
        """Images, samples and the length of a feature; loaded once."""
        if self._loaded is None:
            groups = load_groups(self._options)
            backbone = build_network(self._options, self._run.seed)
            classes = chosen_classes(groups.pixels.images.class_names, self._options)
            dataset = load_dataset(
                self._options, groups, classes, self._run.device, backbone=backbone
            )
            self._loaded = groups, dataset, backbone.feature_dim
        return self._loaded

    def _compute(self, table_run: TableRun, folder: Path) -> list[dict[str, Any]]:
        groups, dataset, feature_dim = self._data()
        protocol = self._protocol(groups.pixels.images, table_run.order)
        if self._options.weights == "random":
            network = build_network(self._options, table_run.seed)
            dataset = replace(dataset, network=split_frozen(network, 0)[1])
        return (
            Incremental(
                dataset,
                protocol.joint() if table_run.setting.joint else protocol,
                table_run.setting,
                self._options.memory_size,
                table_run.seed,
                folder,
                self._run.device,
                feature_dim,
            )
            .run()
            .records
        )

    def _protocol(self, images: ImageSet, order: int) -> Protocol:
        return make_protocol(
            chosen_classes(images.class_names, self._options),
            known=self._options.known_classes,
            unknown=self._options.unknown_classes,
            initial=self._options.initial_classes,
            per_step=self._options.classes_per_step,
            order=order,
        )


def _report(table_run: TableRun, records: list[dict[str, Any]]) -> None:
    metrics = records[-1]["metrics"]
    reached = metrics[metrics["chosen"]]["owr_harmonic"]
    shown = "none" if reached is None else f"{100 * reached:.1f} %"
    name, order, seed = table_run.setting.name, table_run.order, table_run.seed
    _log.info("%s, order %d, seed %d: OWR-H %s after the last step", name, order, seed, shown)


BASELINE = "ncm"


def run_evaluate_openworld(options: EvaluateOpenWorldOptions, run: Run) -> dict[str, Any]:
    """Share missing runs out among the processes; then write tables and figures."""
    settings = parse_rows(options.rows)
    require_same_images(open_images(options.data, options.layout), run)
    table_runs = TableRuns(options, run)
    wanted = _all_runs(settings, options)
    table_runs.fill(wanted)
    if not run.process_group.is_main_process:
        return {}
    rows = _rows(wanted, table_runs)
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


def _all_runs(settings: list[Setting], options: EvaluateOpenWorldOptions) -> list[TableRun]:
    """Order by order, so that an interrupted table has something of every row."""
    return [
        TableRun(setting, order, options.seed + seed)
        for seed in range(options.seeds)
        for order in range(options.orders)
        for setting in settings
    ]


def _rows(wanted: list[TableRun], table_runs: TableRuns) -> dict[str, Runs]:
    rows: dict[str, dict[tuple[int, int], Any]] = {}
    for table_run in wanted:
        of_row = rows.setdefault(table_run.setting.name, {})
        of_row[table_run.order, table_run.seed] = table_runs.records(table_run)
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
