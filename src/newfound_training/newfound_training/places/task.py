# SPDX-License-Identifier: Apache-2.0
"""Training a place classifier on its source domains, and choosing how WBN* is softened.

Outside of its sources the domain branch is overconfident. Each source is left out of a training
once; the softening under which the left-out sources are recognised best is taken. The target is
never looked at. With two sources a training would be left with one, whose weight is always one,
so there is nothing to choose from and the options' own values hold.
"""

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product, starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.places import PlaceClassifier, WbnClassifier
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_core.storage import read_json, write_json
from newfound_training.places.data import (
    BalancedBatches,
    FrozenInputs,
    ImageInputs,
    Inputs,
    PlaceImages,
    Sources,
)
from newfound_training.places.models import FrozenPart, Shape, Shortened, build_place_model
from newfound_training.places.options import PlacesOptions
from newfound_training.running.command import Run
from newfound_training.running.training import Task, pretrained_backbone, step_samples, train

FEATURES_NAME = "frozen_features"


class Batch(NamedTuple):
    """Network inputs and what is known of them."""

    inputs: Tensor  # [N, …]
    labels: Tensor  # [N]
    domains: Tensor  # [N]


class PlaceData:
    """The images as the networks of one command take them."""

    def __init__(self, images: PlaceImages, options: PlacesOptions, run: Run) -> None:
        self.images = images
        self.preprocessing: Preprocessing = default_preprocessing(
            options.backbone, options.image_size
        )
        plain = ImageInputs(images.pixels, self.preprocessing, options)
        self.inputs: Inputs = plain
        self._shapes: tuple[Shape, Shape] | None = None
        self._features: Path | None = None
        if options.remembered_variants:
            frozen = FrozenPart(pretrained_backbone(options), options.frozen_stages)
            self._shapes = frozen.shapes(options.image_size)
            self._features = run.out / FEATURES_NAME
            with run.process_group.main_process_first():
                self.inputs = FrozenInputs.of(
                    frozen.to(run.device), plain, options.remembered_variants, self._features
                )

    def fit(self, model: PlaceClassifier, frozen: int) -> Callable[[], PlaceClassifier]:
        """Let a model take these inputs; call the result to have it take images again."""
        if self._shapes is None:
            return lambda: model
        return Shortened(model, frozen, self._shapes).whole

    def discard(self) -> None:
        """Remove what only an interrupted run would need."""
        if self._features is not None:
            shutil.rmtree(self._features, ignore_errors=True)


class PlaceTask(Task):
    """The loss of a method on its sources; accuracy on the part of them that is held out."""

    def __init__(
        self, data: PlaceData, sources: Sources, options: PlacesOptions, run: Run
    ) -> None:
        torch.manual_seed(run.seed)  # classifier and branch start from random values
        self.data, self.sources, self._run = data, sources, run
        self._branch_lr = options.branch_lr
        self._labelled = options.method in ("wbn", "bsf")
        self._order = BalancedBatches(sources.training, options.batch_size, run.seed)
        places = len(data.images.pixels.images.class_names)
        self.model: PlaceClassifier = build_place_model(options, places, len(sources.names))
        self.whole = data.fit(self.model, options.frozen_stages)
        self.model.to(run.device).to(memory_format=torch.channels_last)

    def batch(self, step: int) -> Batch:
        """Random variants of this process's share of the step's images."""
        positions, generators = step_samples(self._run, step, self._order.batch_size)
        chosen, domains = (values[positions] for values in self._order(step))
        inputs = [
            self.data.inputs.varied(int(index), generator)
            for index, generator in zip(chosen, generators, strict=True)
        ]
        labels = self.data.images.labels[chosen]
        return Batch(torch.stack(inputs), torch.from_numpy(labels), torch.from_numpy(domains))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The terms of the method."""
        inputs, labels, domains = (t.to(self._run.device) for t in batch)
        output = self.model(inputs, domains)
        return self.model.loss_terms(output, labels, domains)

    def parameter_groups(self, lr: float, new_lr: float) -> list[dict[str, Any]]:
        """The backbone at `lr`, the classifier at `new_lr`, the branch at a rate of its own."""
        groups: dict[str, list[nn.Parameter]] = {"backbone": [], "classifier": [], "branch": []}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                groups[name.partition(".")[0]].append(parameter)
        rates = {"backbone": lr, "classifier": new_lr, "branch": self._branch_lr}
        return [{"params": p, "lr": rates[name]} for name, p in groups.items() if p]

    def evaluate(self) -> dict[str, float]:
        """Accuracy of places, and of domains, on the held-out images of the sources."""
        held_out = self.sources.validation
        if not len(held_out):
            return {}
        images, found = self.data.images, self.predict(held_out)
        right = found.probabilities.argmax(1) == images.labels[held_out]
        metrics = {"validation_accuracy": float(right.mean())}
        if self._labelled:
            named = np.array(self.sources.names)[found.domain_weights.argmax(1)]
            metrics["domain_accuracy"] = float((named == images.domains[held_out]).mean())
        return metrics

    def accuracy(self, indices: np.ndarray) -> float:
        """The share of images whose place is recognised."""
        predicted = self.predict(indices).probabilities.argmax(1)
        return float((predicted == self.data.images.labels[indices]).mean())

    def source_confidence(self) -> float | None:
        """Mean probability of the answer on the held-out images of the sources, if there are."""
        held_out = self.sources.validation
        return float(self.predict(held_out).probabilities.max(1).mean()) if len(held_out) else None

    def predict(self, indices: np.ndarray, batch_size: int = 100) -> "Predictions":
        """Predict images with the model in evaluation mode."""
        self.model.eval()
        parts = []
        for start in range(0, len(indices), batch_size):
            inputs = self.data.inputs.plain(indices[start : start + batch_size])
            parts.append(self.model.categorize(inputs.to(self._run.device)))
        return Predictions(*(torch.cat(p).cpu().numpy() for p in zip(*parts, strict=True)))


class Predictions(NamedTuple):
    """Predictions for N images."""

    probabilities: np.ndarray  # [N, places]
    domain_weights: np.ndarray  # [N, domains]; no columns without domains


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
    """Set how a model softens its domain weights at test time."""
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
        unseen = data.images.of(name)
        found = [_accuracy(task, c, unseen) for c in (*CANDIDATES, EQUAL)]
        write_json(path, {"accuracy": found})
    return read_json(path)["accuracy"]


def _accuracy(task: PlaceTask, softening: Softening, indices: np.ndarray) -> float:
    assert isinstance(task.model, WbnClassifier)
    soften(task.model, softening)
    return task.accuracy(indices)
