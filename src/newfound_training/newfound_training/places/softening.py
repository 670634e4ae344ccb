# SPDX-License-Identifier: Apache-2.0
"""How much the domain weights of WBN* are softened, chosen by holding out source domains.

Outside of its sources the domain branch is overconfident. Each source is left out of a training
once; the softening under which the left-out sources are recognised best is taken. The target is
never looked at. With two sources a training would be left with one, whose weight is always one,
so there is nothing to choose from and the options' own values hold.
"""

import logging
from dataclasses import replace
from itertools import product, starmap
from typing import Any, NamedTuple

import numpy as np

from newfound_core.places import WbnClassifier
from newfound_training.places.data import Sources
from newfound_training.places.options import PlacesOptions
from newfound_training.places.task import PlaceData, PlaceTask
from newfound_training.running.files import read_json, write_json
from newfound_training.running.run import Run
from newfound_training.running.training import train

_log = logging.getLogger(__name__)


class Softening(NamedTuple):
    """w = (1 - smoothing) softmax(logits / temperature) + smoothing / k, at test time."""

    smoothing: float = 0.0
    temperature: float = 1.0


AS_PRINTED = Softening()
# From sharp to soft: among equally good ones the first is taken.
CANDIDATES = tuple(starmap(Softening, product((0.0, 0.25, 0.5, 0.75), (1.0, 3.0, 10.0))))
EQUAL = Softening(1.0)  # measured beside them, never chosen: the branch would have no say


def soften(model: WbnClassifier, softening: Softening) -> None:
    """Sets how a model softens its domain weights at test time."""
    model.config = replace(
        model.config,
        assignment_smoothing=softening.smoothing,
        assignment_temperature=softening.temperature,
    )


def choose_softening(
    data: PlaceData, sources: Sources, options: PlacesOptions, run: Run
) -> tuple[Softening, list[dict[str, Any]]]:
    """The best candidate, and how good each of them was on the sources held out."""
    given = Softening(options.assignment_smoothing, options.assignment_temperature)
    if options.softening == "given":
        return given, []
    if len(sources.names) < 3:
        _log.info("too few sources to hold one out: smoothing %g, temperature %g", *given)
        return given, []
    found = [
        _held_out(data, sources, number, options, run) for number in range(len(sources.names))
    ]
    means = np.mean(found, 0)
    best = CANDIDATES[int(means[: len(CANDIDATES)].argmax())]
    _log.info("softening chosen on sources: smoothing %g, temperature %g", *best)
    listed = [
        {**candidate._asdict(), "accuracy": float(mean)}
        for candidate, mean in zip((*CANDIDATES, EQUAL), means, strict=True)
    ]
    return best, listed


def _held_out(
    data: PlaceData, sources: Sources, number: int, options: PlacesOptions, run: Run
) -> list[float]:
    """Accuracy of every candidate, and of equal weights, on a source left out of training."""
    name = sources.names[number]
    run = run.inside(f"held_out/{name}")
    path = run.out / "accuracy.json"
    if not path.exists():
        _log.info("training without %s", name)
        task = PlaceTask(data, sources.without(number), options, run)
        train(task, options, run)
        write_json(path, [_accuracy(task, c, data.images.of(name)) for c in (*CANDIDATES, EQUAL)])
    return read_json(path)


def _accuracy(task: PlaceTask, softening: Softening, indices: np.ndarray) -> float:
    assert isinstance(task.model, WbnClassifier)
    soften(task.model, softening)
    return task.accuracy(indices)
