# SPDX-License-Identifier: Apache-2.0
"""`evaluate_tasks`: every way to add a task to a network, on several tasks with several seeds.

Each training behind the table, a row, a task and a seed, is kept in a file of its own. Learning
rates are chosen on the first task, on a fifth of its training images; no test image is looked at.
"""

import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from newfound_core.errors import ConfigError
from newfound_core.storage import read_json, write_bytes, write_json
from newfound_core.task_delta.checkpoint import Base
from newfound_core.task_delta.config import TaskDeltaConfig, Variant
from newfound_core.task_delta.delta import extract, trunk_digest
from newfound_core.task_delta.layers import base_tensors, mask_statistics
from newfound_training.data import open_images
from newfound_training.data.sampling import split
from newfound_training.running.command import Clock, Command, Run
from newfound_training.running.training import train
from newfound_training.tasks.data import Decoding, TaskData, TaskImages, open_task
from newfound_training.tasks.make_delta import delta_of
from newfound_training.tasks.options import EvaluationOptions, TaskOptions
from newfound_training.tasks.tables import markdown, summary
from newfound_training.tasks.task import TaskTraining, build_task_model

_log = logging.getLogger(__name__)
_TASK = re.compile(
    r"(?P<folder>.+)/(?P<domain>[^/,\[\]]+)(,(?P<test>[^/,\[\]]+))?(\[(?P<first>\d+):(?P<last>\d+)\])?"
)


class Rates(NamedTuple):
    """Learning rates of a row."""

    lr: float  # of Adam
    new_lr: float  # of the head


def parse_task(text: str, options: EvaluationOptions) -> TaskImages:
    """The images of a task that an option names."""
    found = _TASK.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"{text!r} names no task: expected <folder>/<domain> or <folder>/<training>,<test>, "
            "and [a:b] for some of its classes"
        )
    data = str(Path(options.data) / found["folder"])
    classes: tuple[str, ...] = ()
    if found["first"]:
        names = open_images(data, options.layout).class_names
        classes = names[int(found["first"]) : int(found["last"])]
        if len(classes) < 2:
            raise ConfigError(f"{text!r} has {len(classes)} of the {len(names)} classes")
    return TaskImages(
        data,
        options.layout,
        (found["domain"],),
        (found["test"],) if found["test"] else (),
        classes,
        images_per_class=options.images_per_class,
        test_images_per_class=options.test_images_per_class,
        held_out_share=0.3,
    )


class Trainings:
    """Results of trainings, computed when they are not there yet."""

    def __init__(self, options: EvaluationOptions, base: Base, run: Run) -> None:
        self._options, self._base, self._run = options, base, run
        self._data: dict[tuple[str, int], TaskData] = {}
        self._tuned: tuple[Path, dict[str, torch.Tensor]] | None = None  # the last fine-tuned

    def data(self, task: str, seed: int) -> TaskData:
        """Images of a task; the images held out depend on the seed if they are drawn."""
        if (task, seed) not in self._data:
            options = self._options
            decoding = Decoding(options.image_size, options.strict, options.cache_limit_gb)
            run = replace(self._run.inside(f"data/{_file_name(task)}_{seed}"), seed=seed)
            self._data[task, seed] = open_task(parse_task(task, options), decoding, run)
        return self._data[task, seed]

    def choose(self, row: str, task: str, head_rate: float) -> Rates:
        """The rates with which a row recognises most of a fifth of a task's training images."""
        options = self._options
        if row == "head":
            candidates = [Rates(1e-3, rate) for rate in options.head_rates]
        else:
            candidates = [Rates(rate, head_rate) for rate in options.rates]
        if row == "piggyback":  # its scores start in multiples of the rate: all are alike
            candidates = candidates[:1]
        if len(candidates) == 1:
            return candidates[0]
        training = self.data(task, options.seed).training
        kept, checked = split(training.images.labels, 0.2, options.seed)
        data = TaskData(training.select(kept), training.select(checked))
        name = f"choice/{row}"
        found = [self._result(row, data, r, options.seed, f"{name}_{r.lr}_{r.new_lr}")
                 for r in candidates]  # fmt: skip
        return candidates[int(np.argmax([entry["accuracy"] for entry in found]))]

    def result(self, row: str, task: str, seed: int, rates: Rates) -> dict[str, Any]:
        """Accuracy on the held-out images, and size of what is stored."""
        name = f"runs/{_file_name(task)}/{row}_{seed}"
        return self._result(row, self.data(task, seed), rates, seed, name)

    def _result(
        self, row: str, data: TaskData, rates: Rates, seed: int, name: str
    ) -> dict[str, Any]:
        run = replace(self._run.inside(name), seed=seed)
        path = run.out.with_name(f"{run.out.name}.json")
        if not path.exists():
            options = replace(self._options.training(), lr=rates.lr, new_lr=rates.new_lr)
            clock = Clock()
            found = self._measured(row, data, options, run)
            write_json(
                path, found | rates._asdict() | {"processor_seconds": clock.processor_seconds()}
            )
            shutil.rmtree(run.out)  # only an interrupted training needs it
        return read_json(path)

    def _measured(
        self, row: str, data: TaskData, options: TaskOptions, run: Run
    ) -> dict[str, Any]:
        torch.manual_seed(run.seed)
        tuned = row in ("fine_tuning", "make_delta")
        config = None if tuned else _config(row, self._options)
        classes = len(data.class_names)
        model = build_task_model(self._base, options, classes, config=config)
        own = options.norm_statistics == "task"
        task = TaskTraining(data, model, config, options, run, own_statistics=own)
        if row == "make_delta":
            self._tune(task, options, run)
            options = replace(options, iterations=self._options.make_delta_iterations)
            task, config = delta_of(task.model, self._base, data, options, run)
        metrics = train(task, options, run)
        if row == "fine_tuning":
            self._tuned = run.out, task.model.state_dict()
        backbone = task.model.backbone
        assert isinstance(backbone, nn.Module)
        if config is not None:
            self._require_same_base(backbone)
        size = base_bytes(self._base) if config is None else extract(backbone, config).size_bytes
        return metrics | {"bytes": size, **mask_statistics(backbone)}

    def _tune(self, task: TaskTraining, options: TaskOptions, run: Run) -> None:
        """Fine-tune, unless that was done for its own row just before."""
        known = run.out.with_name(run.out.name.replace("make_delta", "fine_tuning"))
        if self._tuned is not None and self._tuned[0] == known:
            task.model.load_state_dict(self._tuned[1])
        else:
            train(task, options, run.inside("fine_tuning"))

    def _require_same_base(self, backbone: nn.Module) -> None:
        """Training must not have touched a weight of the base."""
        weights = {k: t for k, t in base_tensors(backbone).items() if t.ndim >= 2}
        before = {k: t for k, t in self._base.tensors.items() if t.ndim >= 2}
        assert trunk_digest(weights) == trunk_digest(before)


def _config(row: str, options: EvaluationOptions) -> TaskDeltaConfig:
    margin = (options.piggyback_margin,) * 2 if row.startswith("piggyback") else None
    return TaskDeltaConfig(
        cast(Variant, row),
        mask_margin=margin,
        unit=options.unit,
        norm_statistics=options.norm_statistics,
    )


def base_bytes(base: Base) -> int:
    """Bytes of the network that is shared, without BN's counters."""
    return sum(4 * t.numel() for t in base.tensors.values() if t.is_floating_point())


def _file_name(task: str) -> str:
    return re.sub(r"\W+", "_", task).strip("_")


def run_evaluate_tasks(options: EvaluationOptions, run: Run) -> dict[str, Any]:
    """Choose rates, fill the table, and write it."""
    base = TaskOptions(base=options.base).load_base()
    trainings = Trainings(options, base, run)
    rates: dict[str, Rates] = {}
    head_rate = trainings.choose("head", options.tasks[0], 0.0).new_lr
    for row in tqdm(options.rows, "rates", disable=None):
        same = "fine_tuning" if row == "make_delta" else row
        rates[row] = rates.get(same) or trainings.choose(same, options.tasks[0], head_rate)
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    wanted = [
        (row, task, seed)
        for seed in range(options.seed, options.seed + options.seeds)
        for task in options.tasks
        for row in sorted(options.rows, key="make_delta".__eq__)  # which needs fine-tuning first
    ]
    for row, task, seed in tqdm(wanted, "trainings", disable=None):
        found[row, task, seed] = trainings.result(row, task, seed, rates[row])
    result = _result(found, rates, options, base)
    write_bytes(run.out / "table.md", markdown(result["rows"]).encode())
    _log.info("%s", markdown(result["rows"]))
    return result


def _result(
    found: dict[tuple[str, str, int], dict[str, Any]],
    rates: dict[str, Rates],
    options: EvaluationOptions,
    base: Base,
) -> dict[str, Any]:
    seeds = range(options.seed, options.seed + options.seeds)
    accuracies: dict[str, dict[str, list[float]]] = {
        row: {t: [found[row, t, s]["accuracy"] for s in seeds] for t in options.tasks}
        for row in options.rows
    }
    size: dict[str, int] = {
        row: found[row, options.tasks[0], options.seed]["bytes"] for row in options.rows
    }
    spent: dict[str, float] = {
        row: sum(found[row, t, s]["processor_seconds"] for t in options.tasks for s in seeds)
        for row in options.rows
    }
    return {
        "rows": summary(accuracies, size, base_bytes(base)),
        "accuracies": accuracies,
        "rates": {row: own._asdict() for row, own in rates.items()},
        "relative_time": {row: time / spent["fine_tuning"] for row, time in spent.items()},
        "base_sha256": base.digest,
    }


COMMAND = Command(
    "evaluate-tasks",
    "Compares ways to add tasks to one network: score, size and time beside fine-tuning.",
    EvaluationOptions,
    run_evaluate_tasks,
    {
        "rows": "for each row of the table: tasks (mean accuracy over seeds), mean, score (S of "
        "the Visual\n      Decathlon, fine-tuning has 250 a task), parameters (base and all tasks "
        "without heads, in\n      multiples of the base), score_per_parameter, kib (of one task "
        "without its head)",
        "accuracies": "single values, by row, task and seed",
        "rates": "chosen on the first task: lr and new_lr of every row",
        "relative_time": "processor time of a row's trainings, relative to fine_tuning; that of "
        "make_delta\n      is what it takes after a fine-tuning",
        "base_sha256": "digest of the network that is shared",
    },
)
