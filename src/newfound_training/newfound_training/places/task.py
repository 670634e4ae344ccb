# SPDX-License-Identifier: Apache-2.0
"""Training a place classifier on its source domains, and asking it about others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.places import PlaceClassifier
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_training.data.batches import image_generator, share_of
from newfound_training.places.data import BalancedBatches, PlaceImages, Sources
from newfound_training.places.frozen import FrozenPart, Shape, Shortened, remember
from newfound_training.places.inputs import ImageInputs, Inputs
from newfound_training.places.models import build_place_model, pretrained
from newfound_training.places.options import PlacesOptions
from newfound_training.running.run import Run
from newfound_training.running.training import Task

ROWS_NAME = "frozen.npy"


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
        self._rows: Path | None = None
        if options.remembered_variants:
            frozen = FrozenPart(pretrained(options), options.frozen_stages)
            self._shapes = frozen.shapes(options.image_size)
            self._rows = run.out / ROWS_NAME
            with run.team.leader_first():
                self.inputs = remember(
                    frozen, plain, options.remembered_variants, self._rows, run.device
                )

    def fit(self, model: PlaceClassifier, frozen: int) -> Callable[[], PlaceClassifier]:
        """Lets a model take these inputs; call the result to have it take images again."""
        if self._shapes is None:
            return lambda: model
        return Shortened(model, frozen, self._shapes).whole

    def discard(self) -> None:
        """Removes what only an interrupted run would need."""
        if self._rows is not None:
            self._rows.unlink(missing_ok=True)


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
        places = np.arange(self._order.batch_size)
        places = share_of(places, self._run.team.rank, self._run.team.processes)
        chosen, domains = (values[places] for values in self._order(step))
        inputs = [
            self.data.inputs.varied(int(index), image_generator(self._run.seed, step, int(place)))
            for index, place in zip(chosen, places, strict=True)
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
        """On the held-out images of the sources: are places recognised, and domains?"""
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

    def predict(self, indices: np.ndarray, batch_size: int = 100) -> "Predictions":
        """What the model, in evaluation mode, says of images."""
        self.model.eval()
        parts = []
        for start in range(0, len(indices), batch_size):
            inputs = self.data.inputs.plain(indices[start : start + batch_size])
            parts.append(self.model.categorize(inputs.to(self._run.device)))
        return Predictions(*(torch.cat(p).cpu().numpy() for p in zip(*parts, strict=True)))


class Predictions(NamedTuple):
    """What a model says of N images."""

    probabilities: np.ndarray  # [N, places]
    domain_weights: np.ndarray  # [N, domains]; no columns without domains
