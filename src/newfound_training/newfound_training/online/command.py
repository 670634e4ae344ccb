# SPDX-License-Identifier: Apache-2.0
"""`evaluate_online`: trains the sources, streams the targets, writes table and figures."""

import logging
from pathlib import Path
from typing import Any

from newfound_core.errors import ConfigError
from newfound_core.storage import read_json, write_bytes
from newfound_training.online.experiment import Experiment
from newfound_training.online.figures import draw_changes, draw_streams, draw_sweep
from newfound_training.online.options import (
    OnlineOptions,
    chosen_pairs,
    parse_pair,
    refuse_other_dial_pairs,
)
from newfound_training.online.robustness import run_streams
from newfound_training.online.streams import Target, sweep_streams
from newfound_training.online.tables import (
    average_of,
    by_changes,
    changes_markdown,
    confusions,
    markdown,
    only_changed,
    row_of,
    sweep_summary,
)
from newfound_training.running.command import Command, Run
from newfound_training.running.figures import draw_confusions

_log = logging.getLogger(__name__)


def run_evaluate_online(options: OnlineOptions, run: Run) -> dict[str, Any]:
    """The whole table, the sweep if one is asked for, and the figures."""
    if run.process_group.world_size > 1:
        raise ConfigError(
            "evaluate-online runs in one process: train with torchrun … train-source, then give "
            "the model with --checkpoint"
        )
    experiment = Experiment(options, run)
    pairs = chosen_pairs(options, experiment.source_images, experiment.images)
    refuse_other_dial_pairs(options, pairs)
    _require_every_class(pairs, experiment)
    if options.streams:
        return run_streams(experiment, pairs, run) | {"corrupt_images": experiment.corrupt}
    targets = [experiment.target(source, target) for source, target in pairs]
    rows = [row_of(target, options) for target in targets]
    for row in rows:
        if f"{row['source']}:{row['target']}" in options.dial:
            row["dial"] = experiment.dial(row["source"], row["target"])["target_accuracy"]
    result = {
        "pairs": rows,
        "average": average_of(rows, options.estimators),
        "by_changes": by_changes(rows, options.conditions),
        "only_changed": only_changed(rows, options.conditions),
    }
    _show(targets, result, options, run.out)
    return result | {
        "sources": _trained_here(run),
        "verification": _verification(targets[0], options),
        "sweep": _sweep(experiment, options, run),
        "corrupt_images": experiment.corrupt,
    }


def _require_every_class(pairs: list[tuple[str, str]], experiment: Experiment) -> None:
    """Require every class in all domains of the pairs; a checkpoint's source need not be there."""
    for images, place in ((experiment.source_images, 0), (experiment.images, 1)):
        named = {pair[place] for pair in pairs}
        images.require_every_class(sorted(named & set(images.domain_names)))


def _show(
    targets: list[Target], result: dict[str, Any], options: OnlineOptions, out: Path
) -> None:
    """The tables for people, and the figures."""
    table = markdown(result["pairs"], result["average"])
    if options.conditions:
        for name, title in (("by_changes", "conditions changed"), ("only_changed", "only this")):
            table += "\n" + changes_markdown(result[name], title)
        draw_changes(targets, options, out / "streams.png")
    else:
        draw_streams(targets, options, out / "streams.png")
    write_bytes(out / "table.md", table.encode())
    _log.info("%s", table)
    names = targets[0].loaded.labels
    draw_confusions(confusions(targets, options), names, out / "confusion.png")


def _trained_here(run: Run) -> dict[str, Any]:
    found = sorted((run.out / "sources").glob("*/result.json"))
    return {
        path.parent.name: {"validation_accuracy": read_json(path).get("validation_accuracy")}
        for path in found
    }


def _verification(target: Target, options: OnlineOptions) -> dict[str, Any]:
    if not options.verify_frames:
        return {}
    return {
        estimator: target.verification(
            options.onda(estimator), target.order(0)[: options.verify_frames], estimator
        )
        for estimator in options.estimators
    }


def _sweep(experiment: Experiment, options: OnlineOptions, run: Run) -> dict[str, Any]:
    if not options.sweep_pair:
        return {}
    pair = parse_pair(options.sweep_pair, options, experiment.source_images, experiment.images)
    target = experiment.target(*pair)
    streams = sweep_streams(target, options)
    draw_sweep(target, streams, run.out / "sweep.png")
    return {
        "pair": options.sweep_pair,
        "estimator": options.sweep_estimator,
        "orders": options.sweep_orders,
        **sweep_summary(streams),
    }


COMMAND = Command(
    "evaluate-online",
    "Streams target domains through ONDA and compares with its bounds.",
    OnlineOptions,
    run_evaluate_online,
    {
        "pairs": "one entry per pair: source, target, frames, orders; under source_only, "
        "re_estimated\n      and each estimator the accuracies after_25, after_50, after_90 "
        "(the tenth of the\n      stream that begins there), last_half and all, as means over "
        "orders; under each\n      estimator also last_half_spread (standard deviation over "
        "orders) and gap_closed, the\n      share of the way from source_only to re_estimated in "
        "the last half (null if that is\n      not at least two points up); dial, the accuracy "
        "of two-domain training, where asked for",
        "average": "the same over all pairs; gap_closed is that of the averages, mean_gap_closed "
        "the mean\n      over the pairs_with_gap pairs that have one",
        "by_changes": "with --conditions: for each number of changed conditions the pairs, and "
        "means over\n      them in the last half: accuracies, and under <method>_gain the gain "
        "over source_only,\n      its mean and standard_error",
        "only_changed": "the same where one condition changed, for each condition",
        "sources": "validation_accuracy of the models trained here",
        "streams": "with --streams, instead of the keys above: for each pair and stream frames "
        "and, under\n      accuracy, that of each method over all frames",
        "gains": "with --streams: for each method its gain over source only, mean over all rows, "
        "mean over\n      shuffled rows, worst and worst_stream",
        "verification": "for each estimator or method frames, given to ONDA one by one, and "
        "predicted_alike, how many\n      of them the fast replay predicts alike",
        "sweep": "pair, estimator and orders of the sweep; for each value of momentum and "
        "frames_per_update\n      the accuracies as above",
        "corrupt_images": "names of those left out",
    },
)
