# SPDX-License-Identifier: Apache-2.0
"""`evaluate_places`: every method on every unseen domain with several seeds, beside BN.

Each run behind the table, a method, an unseen domain and a seed, is kept in a file of its own. BN
and WBN* are measured a second time while ONDA follows the unseen domain's images in its last
layers, those behind the frozen stages, with its guards as in the node.
"""

import copy
import logging
import shutil
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from tqdm import tqdm

from newfound_core.errors import ConfigError
from newfound_core.onda import Onda
from newfound_core.places import WbnClassifier
from newfound_core.storage import read_json, write_bytes, write_json
from newfound_training.places.options import EvaluationOptions, PlacesOptions
from newfound_training.places.tables import (
    FOLLOWED,
    accuracies,
    accuracy_of,
    draw_differences,
    draw_weights,
    markdown,
    method_of,
    rows_of,
    summary,
    weight_histograms,
)
from newfound_training.places.task import (
    AS_PRINTED,
    PlaceData,
    PlaceTask,
    Softening,
    choose_softening,
    soften,
)
from newfound_training.places.train import measure, open_place_images, split_sources
from newfound_training.running.command import Command, Run
from newfound_training.running.distributed import DistributedGroup
from newfound_training.running.training import train


class TableRuns:
    """Results of runs, computed when they are not there yet."""

    def __init__(
        self, data: PlaceData, options: PlacesOptions, run: Run, *, onda: bool = False
    ) -> None:
        self._data, self._options, self._run, self._onda = data, options, run, onda

    def result(self, target: str, method: Any, seed: int) -> dict[str, Any]:
        """Accuracies on the target; see the command's result keys."""
        run = replace(self._run.inside(f"runs/{target}/{method}_{seed}"), seed=seed)
        path = run.out.with_name(f"{run.out.name}.json")
        if not path.exists():
            options = replace(self._options, method=method, target_domains=(target,), seed=seed)
            write_json(path, self._measured(target, options, run))
            shutil.rmtree(run.out)  # only an interrupted training needs it
        return read_json(path)

    def _measured(self, target: str, options: PlacesOptions, run: Run) -> dict[str, Any]:
        sources = split_sources(self._data.images, options)
        task = PlaceTask(self._data, sources, options, run)
        found: dict[str, Any] = dict(train(task, options, run))
        unseen = self._data.images.of(target)
        found |= {"sources": list(sources.names), "weights": _weights(task, unseen)}
        if isinstance(task.model, WbnClassifier) and options.method == "wbn":
            softening, candidates = self.softening(target)
            found["as_printed"] = _accuracies(task, unseen)
            found["softening"] = {**softening._asdict(), "candidates": candidates}
            soften(task.model, softening)
        if self._onda and options.method in FOLLOWED:
            found["onda"] = _followed(task, unseen, run)
        return found | _accuracies(task, unseen)

    def softening(self, target: str) -> tuple[Softening, list[dict[str, Any]]]:
        """Chosen once for a target, with the first seed, on its sources."""
        options = replace(self._options, method="wbn", target_domains=(target,))
        sources = split_sources(self._data.images, options)
        return choose_softening(
            self._data, sources, options, self._run.inside(f"softening/{target}")
        )


def _accuracies(task: PlaceTask, indices: np.ndarray) -> dict[str, Any]:
    found = measure(task, indices)
    return {name: found[name] for name in ("accuracy", "place_accuracy", "images")}


def _followed(task: PlaceTask, indices: np.ndarray, run: Run) -> dict[str, Any]:
    """Accuracies while ONDA follows the images, which come in random order, one by one."""
    model = copy.deepcopy(task.model).eval()
    model.source_confidence = task.source_confidence()
    onda = Onda(model)
    order = np.random.default_rng(run.seed).permutation(indices)
    labels = task.data.images.labels
    counts = np.zeros((len(task.data.images.pixels.images.class_names),) * 2, int)
    for start in range(0, len(order), _CHUNK):
        chunk = order[start : start + _CHUNK]
        inputs = task.data.inputs.plain(chunk).to(run.device)
        for index, image in zip(chunk, inputs, strict=True):
            counts[labels[index], int(onda.predict(image).argmax())] += 1
    return accuracies(counts)


def _weights(task: PlaceTask, unseen: np.ndarray) -> dict[str, Any]:
    """Domain weights, not softened, of target images and of held-out images of the sources."""
    if not isinstance(task.model, WbnClassifier):
        return {}
    soften(task.model, AS_PRINTED)
    folders = task.data.images.folders
    return {
        name: weight_histograms(task.predict(indices).domain_weights, folders[indices])
        if len(indices)
        else {}
        for name, indices in (("target", unseen), ("sources", task.sources.validation))
    }


_log = logging.getLogger(__name__)
_CHUNK = 100  # images that are read at once
Found = dict[tuple[str, str, int], dict[str, Any]]  # by target, method and seed


def run_evaluate_places(options: EvaluationOptions, run: Run) -> dict[str, Any]:
    """Share the runs out among the processes; then write the whole table and its figures."""
    training = options.training()
    images = open_place_images(training, run)
    targets = options.targets or tuple(images.domain_names)
    if len(images.domain_names) < 3:
        raise ConfigError(
            f"{images.pixels.images.root} has the domains {', '.join(images.domain_names)}: at "
            "least three are needed, one to test on and two to train on"
        )
    images.require_every_place(images.domain_names)
    data = PlaceData(images, training, run)
    table_runs = TableRuns(data, training, run.alone(), onda=options.onda)
    found = _fill(table_runs, targets, options, run.process_group)
    if not run.process_group.is_main_process:
        return {}
    result = _result(found, targets, options)
    write_bytes(run.out / "table.md", markdown(result).encode())
    _log.info("%s", markdown(result))
    draw_differences(result, run.out / "differences.png")
    _draw_weights(found, targets, options, run)
    data.discard()
    return result | {"corrupt_images": list(images.pixels.corrupt)}


def _fill(
    table_runs: TableRuns,
    targets: tuple[str, ...],
    options: EvaluationOptions,
    group: DistributedGroup,
) -> Found:
    """Seed after seed, so that an interrupted table has all methods and targets."""
    if "wbn" in options.methods:  # first, since all seeds of a target need it
        for target in group.shard(targets):
            table_runs.softening(target)
        group.barrier()
    wanted = [
        (target, method, seed)
        for seed in range(options.seed, options.seed + options.seeds)
        for target in targets
        for method in options.methods
    ]
    for key in tqdm(group.shard(wanted), "runs", disable=None if group.is_main_process else True):
        table_runs.result(*key)
    group.barrier()
    return {key: table_runs.result(*key) for key in wanted}


def _result(found: Found, targets: tuple[str, ...], options: EvaluationOptions) -> dict[str, Any]:
    rows = rows_of(options.methods, onda=options.onda)
    seeds = range(options.seed, options.seed + options.seeds)

    def table(measure: str) -> dict[str, Any]:
        return summary(
            {
                row: {
                    target: [
                        accuracy_of(row, found[target, method_of(row), seed], measure)
                        for seed in seeds
                    ]
                    for target in targets
                }
                for row in rows
            }
        )

    softening = {
        target: found[target, "wbn", options.seed]["softening"]
        for target in targets
        if "wbn" in options.methods
    }
    return {
        "methods": rows,
        **table("accuracy"),
        "place_accuracy": table("place_accuracy"),
        "validation": _validation(found, options.methods),
        "softening": softening,
        "images": {t: found[t, "bn", options.seed]["images"] for t in targets},
    }


def _validation(found: Found, methods: Iterable[str]) -> dict[str, dict[str, float]]:
    """Means over targets and seeds of what was measured on the sources."""
    result: dict[str, dict[str, float]] = {}
    for method in methods:
        entries = [entry for key, entry in found.items() if key[1] == method]
        names = [n for n in ("validation_accuracy", "domain_accuracy") if n in entries[0]]
        result[method] = {n: float(np.mean([entry[n] for entry in entries])) for n in names}
    return result


def _draw_weights(
    found: Found, targets: tuple[str, ...], options: EvaluationOptions, run: Run
) -> None:
    """Domain weights of WBN* with the first seed, one figure for each target."""
    if "wbn" not in options.methods:
        return
    for target in targets:
        entry = found[target, "wbn", options.seed]
        histograms = {f"{f} (unseen)": h for f, h in entry["weights"]["target"].items()}
        histograms |= entry["weights"]["sources"]
        draw_weights(histograms, entry["sources"], run.out / f"domain_weights_{target}.png")


COMMAND = Command(
    "evaluate-places",
    "Compares BN, WBN and BSF on domains they have not seen.",
    EvaluationOptions,
    run_evaluate_places,
    {
        "methods": "rows of the table: key and name",
        "targets": "for each unseen domain and row the mean accuracy over seeds, and above_bn: "
        "mean of the\n      paired differences to BN, its 95 % interval by Student's t, and the "
        "number of pairs.\n      A pair is one target and one seed",
        "average": "the same over all targets and seeds",
        "accuracies, differences": "single values, by row, target and seed",
        "place_accuracy": "the same for accuracy averaged over places instead of images",
        "validation": "by method, on held-out images of the sources: validation_accuracy and "
        "domain_accuracy\n      (the share whose domain the branch names, if labelled)",
        "softening": "of WBN*, by target: smoothing and temperature, and the candidates they were "
        "chosen from with\n      their accuracy on held-out sources",
        "images": "number of images of each target",
        "corrupt_images": "names of those left out",
    },
)
