# SPDX-License-Identifier: Apache-2.0
"""Tables and figures: means over runs, their spread, paired differences, trade-offs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newfound_training.openworld.measures import RULES
from newfound_training.running.figures import pyplot, save_figure

METRICS = {
    "closed_world_without_rejection": "closed world, no rejection",
    "closed_world_with_rejection": "closed world, rejection",
    "open_set": "open set",
    "owr": "OWR",
    "owr_harmonic": "OWR-H",
    "auroc": "AUROC",
}
REJECTION = ("correct_knowns_rejected", "unknowns_rejected", "rejection_difference")
Steps = list[dict[str, Any]]  # the records of one run
Runs = Mapping[tuple[int, int], Steps]  # by order and seed


def summary(runs: Runs) -> dict[str, Any]:
    """Means and spreads of every metric, by rule: over the steps, and after the last one."""
    return {
        "chosen": _first(runs)[0]["metrics"]["chosen"],
        "runs": len(runs),
        "known_classes": [record["known_classes"] for record in _first(runs)],
        **{
            rule: {
                "mean_over_steps": _statistics(runs, rule, slice(None)),
                "last_step": _statistics(runs, rule, slice(-1, None)),
                "by_step": [
                    _statistics(runs, rule, slice(i, i + 1)) for i in range(len(_first(runs)))
                ],
            }
            for rule in RULES
        },
    }


def _first(runs: Runs) -> Steps:
    return next(iter(runs.values()))


def _statistics(runs: Runs, rule: str, steps: slice) -> dict[str, dict[str, float] | None]:
    found = {}
    for metric in (*METRICS, *REJECTION):
        values = [_mean(records[steps], rule, metric) for records in runs.values()]
        found[metric] = _mean_and_spread(values)
    return found


def _mean(records: Steps, rule: str, metric: str) -> float | None:
    return _mean_of([record["metrics"][rule][metric] for record in records])


def _mean_of(values: list[float | None]) -> float | None:
    """None if a step could not be measured: a mean over the others would not compare."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _mean_and_spread(values: Sequence[float | None]) -> dict[str, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": float(np.mean(known)), "spread": float(np.std(known))}


def differences(runs: Runs, baseline: Runs, metric: str = "owr_harmonic") -> dict[str, Any] | None:
    """Gain of runs over those of a baseline with the same order and seed, over the steps."""
    pairs = [
        (_chosen_mean(runs[key], metric), _chosen_mean(baseline[key], metric))
        for key in runs
        if key in baseline and len(runs[key]) == len(baseline[key])
    ]
    gains = [a - b for a, b in pairs if a is not None and b is not None]
    if not gains:
        return None
    return {
        **(_mean_and_spread(gains) or {}),
        "above": sum(g > 0 for g in gains),
        "of": len(gains),
    }


def _chosen_mean(records: Steps, metric: str) -> float | None:
    return _mean(records, records[0]["metrics"]["chosen"], metric)


def rejection_summary(runs: Runs) -> dict[str, dict[str, Any]]:
    """The four ways to set thresholds, over steps and runs, by the method's own rule."""
    names = _first(runs)[0].get("rejection", {})
    return {
        name: {
            metric: _mean_and_spread(
                [
                    _mean_of([_of(record["rejection"][name], metric) for record in records])
                    for records in runs.values()
                ]
            )
            for metric in (*REJECTION, "owr_harmonic")
        }
        for name in names
    }


def _of(metrics: dict[str, Any], metric: str) -> float | None:
    return metrics[metrics["chosen"]][metric]


def best_rows(rows: Mapping[str, Runs], methods: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Row and rule with the highest OWR-H over the steps, for each method."""
    best: dict[str, dict[str, Any]] = {}
    for name, runs in rows.items():
        for rule in RULES:
            reached = summary(runs)[rule]["mean_over_steps"]["owr_harmonic"]
            if reached is None:
                continue
            before = best.get(methods[name])
            if before is None or reached["mean"] > before["owr_harmonic"]:
                best[methods[name]] = {
                    "row": name, "reject_when": rule, "owr_harmonic": reached["mean"]
                }  # fmt: skip
    return best


def markdown(summaries: Mapping[str, dict[str, Any]], part: str) -> str:
    """One table for people, in percent: `part` is mean_over_steps or last_step."""
    lines = [
        f"| method | {' | '.join(METRICS.values())} | OWR-H, other rule |",
        "|---" * (len(METRICS) + 2) + "|",
    ]
    for name, found in summaries.items():
        rule = found["chosen"]
        (other,) = (r for r in RULES if r != rule)
        values = [_shown(found[rule][part][metric]) for metric in METRICS]
        values.append(_shown(found[other][part]["owr_harmonic"]))
        lines.append(f"| {' | '.join([name, *values])} |")
    return "\n".join(lines) + "\n"


def rejection_markdown(found: Mapping[str, dict[str, Any]]) -> str:
    """The ablation of rejection, in percent."""
    lines = [
        "| thresholds | correct knowns rejected | unknowns rejected | difference | OWR-H |",
        "|---|---|---|---|---|",
    ]
    for name, values in found.items():
        shown = [_shown(values[metric]) for metric in (*REJECTION, "owr_harmonic")]
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def _shown(value: dict[str, float] | None) -> str:
    return "" if value is None else f"{100 * value['mean']:.1f} ± {100 * value['spread']:.1f}"


PANELS = {
    "closed_world_without_rejection": "closed world, no rejection",
    "closed_world_with_rejection": "closed world, rejection",
    "open_set": "open set: unknowns rejected",
    "owr": "OWR",
    "owr_harmonic": "OWR-H",
    "auroc": "AUROC",
}
Records = list[dict[str, Any]]  # of the steps of one run


def draw_steps(rows: Mapping[str, Sequence[Records]], path: Path) -> None:
    """Every metric over the number of known classes: mean of the runs, and their spread."""
    figure, axes = pyplot.subplots(2, 3, figsize=(10, 5.4), layout="constrained")
    for panel, (metric, title) in zip(axes.flat, PANELS.items(), strict=True):
        for name, runs in rows.items():
            _curve(panel, name, runs, metric)
        panel.set_title(title, fontsize=10)
        panel.tick_params(labelsize=8)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=len(rows), fontsize=8)
    figure.supxlabel("known classes", fontsize=9)
    figure.supylabel("%", fontsize=9)
    save_figure(figure, path)


def _curve(panel: Any, name: str, runs: Sequence[Records], metric: str) -> None:
    values = np.array([[_value(record, metric) for record in records] for records in runs])
    counts = [record["known_classes"] for record in runs[0]]
    mean, spread = 100 * values.mean(0), 100 * values.std(0)
    (line,) = panel.plot(counts, mean, marker="o", markersize=3, label=name)
    if len(runs) > 1:
        panel.fill_between(
            counts, mean - spread, mean + spread, color=line.get_color(), alpha=0.15
        )


def _value(record: dict[str, Any], metric: str) -> float:
    value = record["metrics"][record["metrics"]["chosen"]][metric]
    return np.nan if value is None else value


def draw_trade_off(rows: Mapping[str, Sequence[dict[str, Any]]], path: Path) -> None:
    """Knowns named right against unknowns rejected, for all thresholds; a dot where it decides."""
    figure, panel = pyplot.subplots(figsize=(4.6, 4.2), layout="constrained")
    for name, records in rows.items():
        curve = 100 * np.mean([record["trade_off"]["curve"] for record in records], axis=0)
        point = 100 * np.mean([record["trade_off"]["at_threshold"] for record in records], axis=0)
        (line,) = panel.plot(curve[:, 1], curve[:, 0], label=name, linewidth=1.2)
        panel.plot(point[1], point[0], "o", color=line.get_color())
    panel.set_xlabel("unknowns rejected, %")
    panel.set_ylabel("knowns named right, %")
    panel.legend(fontsize=8)
    save_figure(figure, path)
