# SPDX-License-Identifier: Apache-2.0
"""Training with labelled source images and unlabelled target images: mDA, and DIAL as k = 1."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.augmentation import Augmentation
from newfound_core.classifier import Classifier
from newfound_core.errors import ConfigError, DataError
from newfound_core.frozen_features import frozen_parts
from newfound_core.latent import UNKNOWN, LatentClassifier, require_classes
from newfound_core.latent.branches import Side
from newfound_core.models import load_model
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_core.resume import STATE_NAME
from newfound_core.stem_clusters import cluster_statistics, measure_stem
from newfound_core.storage import write_json
from newfound_training.data import Pixels
from newfound_training.data.sampling import Shuffled, image_generator
from newfound_training.latent.options import MdaOptions
from newfound_training.running.command import Run
from newfound_training.running.options import make_options, read_preset
from newfound_training.running.training import Task
from newfound_training.source import (
    SourceOptions,
    build_classifier,
    source_pixels,
    to_device,
    train_on,
)

_log = logging.getLogger(__name__)

BRANCH_GRADIENT = 1.0  # norm: a domain of little mass in a batch has noisy gradients
BRANCH_RATE = 0.01  # of Adam, for the branch's start
MEMORY = 0.1  # share of the latest batch in the mean prediction that is watched


class Batch(NamedTuple):
    """Source images first, then target images."""

    images: Tensor  # [N, 3, H, W]
    labels: Tensor  # [N]; zero for target images, not looked at
    is_target: Tensor  # [N]
    domains: Tensor  # [N] within its side, or UNKNOWN


def source_domains(source: Pixels, options: MdaOptions) -> int:
    """How many latent domains the labelled images have (k_s)."""
    if not options.known_domains:
        return options.source_domains
    count = len(np.unique(source.images.domains))
    if count < 2:
        raise ConfigError(f"known_domains needs two domains, but {source.images.root} has one")
    return count


def known_source_domains(source: Pixels, options: MdaOptions, seed: int) -> np.ndarray:
    """The domain of each labelled image, 0 to k_s - 1; UNKNOWN for all but a random share."""
    _, numbers = np.unique(source.images.domains, return_inverse=True)
    order = np.random.default_rng([seed, 14]).permutation(len(source))
    unknown = order[round(options.known_domains * len(source)) :]
    numbers[unknown] = UNKNOWN
    return numbers


class Target(NamedTuple):
    """Unlabelled images, and their domains in the row of known ones."""

    images: Sequence[np.ndarray] | Pixels  # uint8 [H, W, 3]
    domains: np.ndarray | None = None


class LatentTask(Task):
    """The loss of mDA; there is nothing to evaluate without labels of the target."""

    def __init__(
        self,
        model: LatentClassifier,
        start: "Start",
        target: Target,
        options: MdaOptions,
        run: Run,
    ) -> None:
        source, self.preprocessing = start.pixels, start.preprocessing
        self._options, self._run = options, run
        self._source, self._target = source, target
        self._source_domains = known_source_domains(source, options, run.seed)
        self._source_count = options.batch_size // 2
        self._target_count = options.batch_size - self._source_count
        self._source_order = Shuffled(len(source), self._source_count, run.seed)
        self._target_order = Shuffled(len(target.images), self._target_count, run.seed + 1)
        low, high = options.crop_area
        jitter = options.colour_jitter
        self._augmentation = Augmentation(
            (low, high), brightness=jitter, contrast=jitter, saturation=jitter
        )
        self.model: LatentClassifier = model.to(run.device).to(memory_format=torch.channels_last)
        for part in frozen_parts(model.backbone, options.frozen_stages):
            part.requires_grad_(False)
        self._new_classifier = not (options.checkpoint or options.train_source)
        self._mean_prediction: Tensor | None = None
        if options.branch_start == "clusters" and not (run.out / STATE_NAME).exists():
            self._start_branches()

    def batch(self, step: int) -> Batch:
        """Random variants of the step's images of both sides."""
        source, target = self._source_order(step), self._target_order(step)
        places: list[tuple[Sequence[np.ndarray] | Pixels, int]]
        places = [(self._source, int(i)) for i in source]
        places += [(self._target.images, int(i)) for i in target]
        images = [
            self._augmentation(
                np.asarray(images[index]),
                self.preprocessing,
                image_generator(self._run.seed, step, place),
            )
            for place, (images, index) in enumerate(places)
        ]
        is_target = torch.arange(len(places)) >= len(source)
        labels = torch.zeros(len(places), dtype=torch.int64)
        labels[~is_target] = torch.from_numpy(self._source.images.labels[source])
        domains = torch.full((len(places),), UNKNOWN)
        if self.model.config.source_domains > 1:
            domains[~is_target] = torch.from_numpy(self._source_domains[source])
        if self._target.domains is not None:
            domains[is_target] = torch.from_numpy(self._target.domains[target])
        return Batch(torch.stack(images), labels, is_target, domains)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The terms of mDA."""
        images = to_device(batch.images, self._run.device)
        labels, is_target, domains = (t.to(self._run.device) for t in batch[1:])
        output = self.model(images, is_target, domains)
        self._watch(output.logits[is_target])
        return self.model.loss_terms(output, labels, is_target, domains)

    def _watch(self, logits: Tensor) -> None:
        """Stop if the classes of the target collapse."""
        now = logits.detach().softmax(1).mean(0)
        before = self._mean_prediction
        self._mean_prediction = now if before is None else before.lerp(now, MEMORY)
        require_classes(self._mean_prediction)

    def after_backward(self) -> None:
        """Clip the gradient of the branches."""
        if len(self.model.branches):
            nn.utils.clip_grad_norm_(self.model.branches.parameters(), BRANCH_GRADIENT)

    def parameter_groups(self, lr: float, new_lr: float) -> list[dict[str, Any]]:
        """What was pretrained at `lr`; branches, and a classifier that is new, at `new_lr`."""
        fresh = ("branches.", "classifier.", "norm.") if self._new_classifier else ("branches.",)
        old: list[nn.Parameter] = []
        new: list[nn.Parameter] = []
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                (new if name.startswith(fresh) else old).append(parameter)
        groups: list[dict[str, Any]] = [{"params": old, "lr": lr}, {"params": new, "lr": new_lr}]
        return [group for group in groups if group["params"]]

    def evaluate(self) -> dict[str, float]:
        """Nothing: labels of the target are not known."""
        return {}

    # The start: at w = 1 / k all domains are alike, and no gradient tells them apart.

    def _start_branches(self) -> None:
        sides: dict[Side, Sequence[np.ndarray] | Pixels]
        sides = {"source": self._source, "target": self._target.images}
        known = np.flatnonzero(self._source_domains != UNKNOWN)
        for name, images in sides.items():
            if name not in self.model.branches:
                continue
            if name == "source" and len(known):
                labels = torch.from_numpy(self._source_domains[known])
                self._learn_clusters(name, self._source.select(known), labels)
                continue
            columns = self.model.config.columns(name)
            statistics = measure_stem(
                self.model.backbone,
                prepared(images, self.preprocessing, self._run.device),
            )
            count = columns.stop - columns.start
            clusters = cluster_statistics(statistics, count, self._run.seed)
            self._learn_clusters(name, images, clusters.assignment)

    def _learn_clusters(
        self, side: str, images: Sequence[np.ndarray] | Pixels, labels: Tensor
    ) -> None:
        """Train one branch alone to name clusters, or known domains."""
        branch, backbone = self.model.branches[side].train(), self.model.backbone.eval()
        optimizer = torch.optim.Adam(branch.parameters(), BRANCH_RATE)
        order = Shuffled(len(labels), min(len(labels), self._target_count), self._run.seed + 2)
        for step in range(self._options.branch_start_steps):
            chosen = order(step)
            batch = self.preprocessing.batch([np.asarray(images[int(i)]) for i in chosen])
            with torch.no_grad():
                early = backbone.early_features(to_device(batch, self._run.device))
            loss = functional.cross_entropy(
                branch(early), labels[torch.from_numpy(chosen)].to(early.device)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if self._options.branch_start_steps:
            _log.info("%s branch begins with clusters, loss %.3f", side, float(loss.detach()))


def prepared(
    images: Sequence[np.ndarray] | Pixels,
    preprocessing: Preprocessing,
    device: torch.device,
    size: int = 50,
) -> Iterator[Tensor]:
    """Prepared images batch by batch: memory does not grow with their number."""
    for start in range(0, len(images), size):
        stop = min(start + size, len(images))
        batch = preprocessing.batch([np.asarray(images[i]) for i in range(start, stop)])
        yield to_device(batch, device)


class Start(NamedTuple):
    """The model to begin with, and its labelled images at its size."""

    model: Classifier
    preprocessing: Preprocessing
    pixels: Pixels


def start_from(options: MdaOptions, run: Run) -> Start:
    """Load the source model, train it, or take pretrained weights, as the options say."""
    loaded = None
    if options.checkpoint:
        loaded = load_model(options.checkpoint, "source", run.device)
        prepared_as = loaded.metadata.preprocessing
        values: dict[str, Any] = {"image_size": prepared_as.size, "resize": prepared_as.resize}
    else:
        values = read_preset("train-source", options.source_preset)
    names = ("data", "layout", "seed", "device", "strict", "domains", "cache_limit_gb")
    common = {name: getattr(options, name) for name in names}
    own = make_options(SourceOptions, values | common)
    pixels = source_pixels(own, run)
    if not options.checkpoint and not options.train_source:
        torch.manual_seed(run.seed)
        model = build_classifier(own, len(pixels.images.class_names)).to(run.device)
        chosen = default_preprocessing(own.backbone, own.image_size)
        return Start(model.eval(), replace(chosen, resize=own.resize), pixels)
    loaded = loaded or load_model(_trained(pixels, own, run), "source", run.device)
    if loaded.labels != pixels.images.class_names:
        raise DataError(
            f"{loaded.directory} knows the classes {', '.join(loaded.labels)}, but "
            f"{pixels.images.root} has {', '.join(pixels.images.class_names)}"
        )
    assert isinstance(loaded.model, Classifier)
    return Start(loaded.model, loaded.metadata.preprocessing, pixels)


def _trained(pixels: Pixels, own: SourceOptions, run: Run) -> Path:
    run = run.inside("source")
    if not (run.out / "result.json").is_file():  # written last
        _log.info("training the source model")
        write_json(run.out / "result.json", train_on(pixels, own, run))
    return run.out / "checkpoint"
