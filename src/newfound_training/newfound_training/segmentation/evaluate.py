# SPDX-License-Identifier: Apache-2.0
"""`evaluate_segmentation`: classes learned in steps, by every rule, beside joint training.

Each training behind the table is kept in a file of its own; all of them see the same pictures as
the frozen layers see them, computed once. Nothing is chosen on the pictures that are tested on.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from newfound_core.errors import DataError
from newfound_core.models import load_model, save_model
from newfound_core.preprocessing import default_preprocessing
from newfound_core.segmentation import BACKGROUND, UNLABELLED
from newfound_core.segmentation.metrics import step_metrics
from newfound_core.segmentation.network import SegmentationNetwork
from newfound_core.segmentation.samples import Samples, deeper
from newfound_core.segmentation.training import TrainingConfig, fit, learn_step
from newfound_core.storage import read_json, write_bytes, write_json
from newfound_training.running.command import Clock, Command, Run, require_same_data
from newfound_training.segmentation.features import measure, stored_samples
from newfound_training.segmentation.options import WITH_REFERENCE, EvaluateSegmentationOptions
from newfound_training.segmentation.tables import markdown, summary

_log = logging.getLogger(__name__)
METRICS = ("old", "new", "all", "background")


class Trainings:
    """Networks and results, computed when they are not there yet."""

    def __init__(self, options: EvaluateSegmentationOptions, run: Run) -> None:
        self._options, self._run = options, run
        self.data = options.labelled()
        self.steps = options.step_classes()
        self.data.check_classes([name for step in self.steps for name in step])
        files = [*self.data.training, *self.data.test]
        require_same_data(Path(options.data), (f.fingerprint() for f in files), run)
        self._preprocessing = default_preprocessing(options.backbone, options.image_size)
        network = options.build(1).to(run.device)
        common: dict[str, Any] = {"frozen": options.frozen_stages, "run": run}
        self._training = stored_samples(
            network, self.data, self.data.training, self._preprocessing,
            variants=options.variants, name="training", **common,
        )  # fmt: skip
        self._test = stored_samples(
            network, self.data, self.data.test, self._preprocessing,
            variants=0, name="test", **common,
        )  # fmt: skip
        self._truths = [self.data.read(file).labels for file in self.data.test]
        if options.choice:
            self._test_on_training()
        self.chosen = [self._pictures(number) for number in range(len(self.steps))]

    @property
    def test_images(self) -> int:
        """How many pictures are tested on."""
        return len(self._truths)

    def _test_on_training(self) -> None:
        """Put the pictures tested on aside, and test on blocks of the training pictures."""
        numbers = np.arange(len(self._training))
        tested = numbers // self._options.block % self._options.test_every == 0
        self._test = self._training.select(numbers[tested].tolist())
        self._training = self._training.select(numbers[~tested].tolist())
        files = [f for f, t in zip(self.data.training, tested, strict=True) if t]
        self._truths = [self.data.read(file).labels for file in files]

    def labels(self, steps: int) -> list[str]:
        """The background and the classes of the first steps."""
        return [BACKGROUND, *(name for step in self.steps[:steps] for name in step)]

    def _pictures(self, step: int) -> np.ndarray:
        """Numbers of the training pictures of a step."""
        every = self.data.table(self.labels(len(self.steps)))[self._training.labels[:, 0]]
        first = len(self.labels(step))
        last = len(self.labels(step + 1))
        flat = every.reshape(len(every), -1)
        own = (flat >= first) & (flat < last)
        allowed = np.full(len(flat), True)
        if self._options.protocol == "disjoint":
            allowed = ~((flat >= last) & (flat != UNLABELLED)).any(1)
        shown = np.flatnonzero((own.mean(1) >= self._options.least_share) & allowed)
        if not len(shown):
            raise DataError(f"no training picture is of step {step}: {self.steps[step]}")
        if not step:
            return shown
        generator = np.random.default_rng([self._options.seed, 7, step])
        shown = _at_most(shown, self._options.images_per_step or len(shown), generator)
        without = np.flatnonzero(~own.any(1) & allowed)
        return np.concatenate([shown, _at_most(without, self._options.negatives, generator)])

    def first(self, seed: int) -> SegmentationNetwork:
        """The network after the first step."""
        config = self._options.first_training(seed)
        return self._plain(f"first_{seed}", self.labels(1), self.chosen[0], config)

    def joint(self, seed: int) -> SegmentationNetwork:
        """The network that learned all classes at once, from all pictures."""
        config = self._options.first_training(seed)
        every = np.arange(len(self._training))
        return self._plain(f"joint_{seed}", self.labels(len(self.steps)), every, config)

    def _plain(
        self, name: str, labels: list[str], chosen: np.ndarray, config: TrainingConfig
    ) -> SegmentationNetwork:
        folder = self._run.out / "runs" / name
        if not folder.is_dir():
            torch.manual_seed(config.seed)
            network = self._options.build(len(labels)).to(self._run.device)
            self._fit(name, config, network=network, labels=labels, chosen=chosen)
            save_model(folder, network, labels, self._preprocessing)
        model = load_model(folder, "segmentation", self._run.device).model
        assert isinstance(model, SegmentationNetwork)
        return model

    def _fit(
        self,
        name: str,
        config: TrainingConfig,
        *,
        network: SegmentationNetwork,
        labels: list[str],
        chosen: np.ndarray,
        before: SegmentationNetwork | None = None,
        kept: np.ndarray | None = None,
    ) -> SegmentationNetwork:
        """Train with a bar, from the state of an interrupted run if there is one."""
        samples: Samples = self._training.select(chosen.tolist())
        if kept is not None:
            samples = samples.joined(self._training.select(kept.tolist()).unlabelled())
        state = self._run.out / "runs" / f"{name}.safetensors"
        state.parent.mkdir(parents=True, exist_ok=True)
        with tqdm(total=config.iterations, desc=name, disable=None) as bar:
            more: dict[str, Any] = {
                "state": state,
                "on_step": lambda done, total: bar.update(done - bar.n),
            }
            if before is None:
                table = self.data.table(labels)
                found = fit(network, samples, table, config, **more)
            else:
                new = len(labels) - before.classes
                table = self._step_table(labels, before.classes)
                samples = deeper(samples, before, config.frozen)
                found = learn_step(before, samples, table, new, config, **more)
        state.unlink(missing_ok=True)
        return found

    def _step_table(self, labels: Sequence[str], old: int) -> np.ndarray:
        """Labels of a step: its new classes; all else, old classes included, is background."""
        table = self.data.table(labels)
        return np.where(table < old, 0, table).astype(np.uint8)

    def result(self, row: str, seed: int) -> dict[str, Any]:
        """What a row reaches after the last step."""
        path = self._run.out / "runs" / f"{row}_{seed}.json"
        if not path.is_file():
            clock = Clock()
            network = self._learned(row, seed)
            found = self.measured(network) | {"processor_seconds": clock.processor_seconds()}
            write_json(path, found)
        return read_json(path)

    def _learned(self, row: str, seed: int) -> SegmentationNetwork:
        if row == "joint":
            return self.joint(seed)
        network = self.first(seed)
        if row == "before":
            return network
        for number in range(1, len(self.steps)):
            network = self._fit(
                f"{row}_{seed}_step{number}",
                self._options.further_training(row, seed),
                network=network,
                labels=self.labels(number + 1),
                chosen=self.chosen[number],
                before=network,
                kept=self._kept(number, seed) if row == WITH_REFERENCE else None,
            )
        return network

    def _kept(self, step: int, seed: int) -> np.ndarray:
        """Numbers of the pictures that are kept of the steps before one."""
        generator = np.random.default_rng([seed, 9])
        count = self._options.reference
        earlier = self.chosen[:step]
        kept = [generator.choice(c, min(count, len(c)), replace=False) for c in earlier]
        return np.concatenate(kept)

    def measured(self, network: SegmentationNetwork) -> dict[str, Any]:
        """Mean IoU of old, new and all classes, and each class's own."""
        labels = self.labels(len(self.steps))[: network.classes]
        confusion, confidence = measure(network, self._test, self._truths, self.data.table(labels))
        found = step_metrics(confusion, len(self.labels(1)), network.classes)
        by_class = {n: _known(v) for n, v in zip(labels, confusion.iou(), strict=True)}
        numbers = {name: _known(found[name]) for name in METRICS}
        return {**numbers, "iou": by_class, "confidence": confidence}


def _at_most(numbers: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Some of the numbers, drawn at random if there are more."""
    if len(numbers) <= count:
        return numbers
    return np.sort(generator.choice(numbers, count, replace=False))


def _known(value: float) -> float | None:
    """JSON has no NaN: a class without true pixels has no value."""
    return None if np.isnan(value) else float(value)


def run_evaluate(options: EvaluateSegmentationOptions, run: Run) -> dict[str, Any]:
    """Fill the table, and write it."""
    trainings = Trainings(options, run)
    seeds = range(options.seed, options.seed + options.seeds)
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in seeds:
        for row in ("before", *options.rows):
            found.setdefault(row, []).append(trainings.result(row, seed))
            _log.info("%s, seed %d: %s", row, seed, _shown(found[row][-1]))
    rows = {row: summary(results, METRICS) for row, results in found.items()}
    table = markdown(rows, METRICS)
    write_bytes(run.out / "table.md", table.encode())
    _log.info("%s", table)
    return {
        "rows": rows,
        "by_seed": found,
        "steps": [list(step) for step in trainings.steps],
        "training_images": [len(chosen) for chosen in trainings.chosen],
        "test_images": trainings.test_images,
    }


def _shown(result: dict[str, Any]) -> str:
    return ", ".join(f"{n} {100 * result[n]:.1f}" for n in METRICS if result[n] is not None)


COMMAND = Command(
    "evaluate-segmentation",
    "Compares ways to learn classes of pixels in steps: old, new and all classes, beside joint.",
    EvaluateSegmentationOptions,
    run_evaluate,
    {
        "rows": "by row (before: after the first step; ft, lwf, ce, kd, mib, reference, joint): "
        "mean IoU\n      of old, new and all classes without the background, and the background's "
        "IoU, each with\n      mean and deviation over seeds, on the pictures tested on after the "
        "last step",
        "by_seed": "the same for every seed, with iou by class, confidence (mean over pixels) and "
        "processor_seconds",
        "steps, training_images, test_images": "classes and training pictures of each step, and "
        "how many\n      pictures are tested on",
    },
)
