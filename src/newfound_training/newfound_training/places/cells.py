# SPDX-License-Identifier: Apache-2.0
"""One cell of the table: a method, an unseen domain and a seed, kept in a file of its own."""

import shutil
from dataclasses import replace
from typing import Any

import numpy as np

from newfound_core.places import WbnClassifier
from newfound_training.places.command import measure, split_sources
from newfound_training.places.measures import weight_histograms
from newfound_training.places.options import PlacesOptions
from newfound_training.places.softening import AS_PRINTED, Softening, choose_softening, soften
from newfound_training.places.task import PlaceData, PlaceTask
from newfound_training.running.files import read_json, write_json
from newfound_training.running.run import Run
from newfound_training.running.training import train


class Cells:
    """Trains and tests what is missing, reads what is there."""

    def __init__(self, data: PlaceData, options: PlacesOptions, run: Run) -> None:
        self._data, self._options, self._run = data, options, run

    def cell(self, target: str, method: Any, seed: int) -> dict[str, Any]:
        """Accuracies on the target; see the command's result keys."""
        run = replace(self._run.inside(f"cells/{target}/{method}_{seed}"), seed=seed)
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
