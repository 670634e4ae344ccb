# SPDX-License-Identifier: Apache-2.0
"""`evaluate_online`: trains the sources, streams the targets, writes table and figures."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from newfound_core.errors import ConfigError, DataError
from newfound_core.models import LoadedModel, load_model
from newfound_core.onda import OndaConfig
from newfound_training.data import ImageSet, Pixels, load_pixels, open_images
from newfound_training.online.dial import DialTask
from newfound_training.online.figures import draw_streams, draw_sweep
from newfound_training.online.options import OnlineOptions, chosen_pairs, parse_pair
from newfound_training.online.streams import Target
from newfound_training.online.sweep import summary, sweep_streams
from newfound_training.online.table import average_of, markdown, row_of
from newfound_training.running.card import CARD_NAME
from newfound_training.running.command import Command
from newfound_training.running.files import read_json, write_bytes, write_json
from newfound_training.running.options import make_options, read_preset
from newfound_training.running.run import Run
from newfound_training.running.training import train
from newfound_training.source.command import train_on
from newfound_training.source.options import SourceOptions

_log = logging.getLogger(__name__)


class Experiment:
    """Models and target streams, made when they are first asked for."""

    def __init__(self, options: OnlineOptions, run: Run) -> None:
        self.options, self.run = options, run
        self.images: ImageSet = open_images(options.data, options.layout)
        self.source_options = self._source_options()
        self._models: dict[str, LoadedModel] = {}
        self._domains: dict[str, Pixels] = {}
        self._pixels: Pixels | None = None

    def _source_options(self) -> SourceOptions:
        own = self.options
        values = read_preset("train-source", own.source_preset)
        common = {n: getattr(own, n) for n in ("data", "layout", "seed", "device", "strict")}
        return make_options(SourceOptions, values | common)

    @property
    def pixels(self) -> Pixels:
        """All images at the models' size."""
        if self._pixels is None:
            size = self.source_options.image_size
            if self.options.checkpoint:
                size = self.model("").metadata.preprocessing.size
            self._pixels = load_pixels(
                self.images,
                size,
                strict=self.options.strict,
                limit_gb=self.options.cache_limit_gb,
            )
        return self._pixels

    def domain(self, name: str) -> Pixels:
        """The images of one domain, in memory."""
        if name not in self._domains:
            self._domains[name] = self.pixels.in_domain(name)
        return self._domains[name]

    def model(self, source: str) -> LoadedModel:
        """The model of a source domain, trained now if it is not there yet."""
        name = "" if self.options.checkpoint else source
        if name not in self._models:
            folder = Path(self.options.checkpoint) if not name else self._trained(source)
            loaded = load_model(folder, "source", self.run.device)
            if loaded.labels != self.images.class_names:
                raise DataError(
                    f"{folder} knows the classes {', '.join(loaded.labels)}, but "
                    f"{self.images.root} has {', '.join(self.images.class_names)}"
                )
            self._models[name] = loaded
        return self._models[name]

    def _trained(self, source: str) -> Path:
        run = self.run.inside(f"sources/{source}")
        if not (run.out / "checkpoint" / CARD_NAME).is_file():
            options = replace(self.source_options, domains=(source,))
            _log.info("training on %s", source)
            metrics = train_on(self.domain(source), options, run)
            write_json(run.out / "result.json", metrics)
        return run.out / "checkpoint"

    def target(self, source: str, target: str) -> Target:
        """A model and the stream that it is to meet."""
        return Target(
            source,
            target,
            self.model(source),
            self._streamed(target),
            self.run.out / "streams",
            self.run.seed,
        )

    def _streamed(self, target: str) -> Pixels:
        """The images of a target, or some of them, which are then all that is known of it."""
        pixels, count = self.domain(target), self.options.frames
        if not count or count >= len(pixels):
            return pixels
        chosen = np.random.default_rng([self.run.seed, 7]).permutation(len(pixels))[:count]
        return pixels.select(np.sort(chosen))

    def dial(self, source: str, target: str) -> dict[str, float]:
        """Accuracy on the target of a network trained on both domains."""
        run = self.run.inside(f"dial/{source}-{target}")
        path = run.out / "result.json"
        if not path.exists():
            options = replace(self.source_options, domains=(source,))
            task = DialTask(self.domain(source), self.domain(target), options, run)
            write_json(path, train(task, options, run))
        return read_json(path)


def run_evaluate_online(options: OnlineOptions, run: Run) -> dict[str, Any]:
    """The whole table, the sweep if one is asked for, and the figures."""
    if run.team.processes > 1:
        raise ConfigError(
            "evaluate-online runs in one process: train with torchrun … train-source, then give "
            "the model with --checkpoint"
        )
    experiment = Experiment(options, run)
    pairs = chosen_pairs(options, experiment.images)
    experiment.images.require_every_class(_domains_of(pairs, experiment.images))
    targets = [experiment.target(source, target) for source, target in pairs]
    rows = [row_of(target, options) for target in targets]
    for row in rows:
        if f"{row['source']}:{row['target']}" in options.dial:
            row["dial"] = experiment.dial(row["source"], row["target"])["target_accuracy"]
    average = average_of(rows, options.estimators)
    table = markdown(rows, average)
    write_bytes(run.out / "table.md", table.encode())
    _log.info("%s", table)
    draw_streams(targets, options, run.out / "streams.png")
    return {
        "pairs": rows,
        "average": average,
        "sources": _trained_here(run),
        "verification": _verification(targets[0], options),
        "sweep": _sweep(experiment, options, run),
        "corrupt_images": list(experiment.pixels.corrupt),
    }


def _domains_of(pairs: list[tuple[str, str]], images: ImageSet) -> list[str]:
    """Those of the pairs that are in the data: the source of a checkpoint need not be."""
    return sorted({name for pair in pairs for name in pair} & set(images.domain_names))


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
            OndaConfig(options.frames_per_update, options.momentum, estimator),
            options.verify_frames,
        )
        for estimator in options.estimators
    }


def _sweep(experiment: Experiment, options: OnlineOptions, run: Run) -> dict[str, Any]:
    if not options.sweep_pair:
        return {}
    target = experiment.target(*parse_pair(options.sweep_pair, experiment.images, options))
    streams = sweep_streams(target, options)
    draw_sweep(target, streams, run.out / "sweep.png")
    return {
        "pair": options.sweep_pair,
        "estimator": options.sweep_estimator,
        "orders": options.sweep_orders,
        **summary(streams),
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
        "orders; under each\n      estimator also gap_closed, the share of the way from "
        "source_only to re_estimated in\n      the last half (null if that is not at least "
        "two points up); dial, the accuracy of\n      two-domain training, where asked for",
        "average": "the same over all pairs; gap_closed is that of the averages, mean_gap_closed "
        "the mean\n      over the pairs_with_gap pairs that have one",
        "sources": "validation accuracy of the models trained here",
        "verification": "frames given to ONDA one by one, and how many of them the fast replay "
        "predicts alike",
        "sweep": "accuracies for each value of momentum and frames_per_update",
        "corrupt_images": "names of those left out",
    },
)
