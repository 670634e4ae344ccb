# SPDX-License-Identifier: Apache-2.0
"""`calibrate`: models that are as sure as they are right, and classifiers that say "unknown".

An open-world model gets its probabilities from the held-out part of its memory.

Each kind of evidence (`newfound_core.rejection`) is tried on images that were held out: those of
known classes against the same with their class taken away, and against pictures of other things
where there are some. The one that ranks them best is kept.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.calibration import calibration_error
from newfound_core.checkpoint import MEMORY_NAME
from newfound_core.classifier import Classifier
from newfound_core.errors import ConfigError, DataError
from newfound_core.models import LoadedModel, load_model, save_model, write_model_card
from newfound_core.open_world.heads import HEADS
from newfound_core.open_world.inputs import Inputs, class_indices
from newfound_core.open_world.learner import features_of
from newfound_core.open_world.memory_store import load_memory, save_memory
from newfound_core.open_world.metrics import auroc
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.places import PlaceClassifier
from newfound_core.rejection import EVIDENCE, Evidence, Rejection, RejectionConfig
from newfound_training.data import ImageSet, open_images
from newfound_training.data.images import image_files
from newfound_training.data.sampling import split
from newfound_training.running.command import Command, Run
from newfound_training.running.options import RunOptions, option

_log = logging.getLogger(__name__)
METHODS = ("source", "bn", "wbn", "bsf")
_CHUNK = 32


@dataclass(frozen=True)
class CalibrateOptions(RunOptions):
    """Options of `calibrate`."""

    checkpoint: str = option("", "folder of the model", required=True)
    data: str = option("", "folder with images; not for an open-world model, which has a memory")
    layout: str = option("tree", "how the images lie there; see docs/training.md")
    domains: tuple[str, ...] = option((), "domains of the data to use; all if none is named")
    held_out_domains: tuple[str, ...] = option(
        (), "those of them that the model was not trained on; none: a share of every class"
    )
    held_out_share: float = option(0.5, "of every class, without held-out domains")
    unknown: str = option("", "folder with pictures of other things, of any kind")
    evidence: tuple[Evidence, ...] = option(EVIDENCE, "kinds to choose from")
    directions: int = option(64, "of the features, for the evidence distance")

    def __post_init__(self) -> None:
        if not 0 < self.held_out_share < 1:
            raise ConfigError(f"held_out_share must be in (0, 1), got {self.held_out_share}")
        if not self.evidence:
            raise ConfigError("name at least one kind of evidence")


@dataclass(frozen=True)
class Seen:
    """What a network makes of images."""

    features: Tensor  # [N, D]
    logits: Tensor  # [N, C]


@dataclass(frozen=True)
class Measured:
    """One kind of evidence, fitted, and how well it tells known from unknown."""

    rejection: Rejection
    auroc_left_out: float  # against the same classes, taken away
    auroc_others: float | None  # against pictures of other things
    calibration_error: float
    source_confidence: float  # mean probability of the most probable class, "unknown" being none

    @property
    def rank(self) -> float:
        """What the kinds are compared by."""
        found = [self.auroc_left_out, self.auroc_others]
        return float(np.mean([value for value in found if value is not None]))


def run_calibrate(options: CalibrateOptions, run: Run) -> dict[str, Any]:
    """Write `<out>/checkpoint`, the same model with a rejection, or with calibrated scores."""
    loaded = load_model(options.checkpoint, (*METHODS, *HEADS), run.device)
    if isinstance(loaded.model, OpenWorldModel):
        return calibrate_scores(loaded, run)
    if not options.data:
        raise ConfigError("--data is required: a classifier is calibrated on images")
    if getattr(loaded.model, "rejection", None) is not None:
        raise ConfigError(f"{options.checkpoint} has a rejection: start from one without")
    images = _images(options, loaded.labels)
    training, held_out = _divided(images, options, run.seed)
    learned = look_at(loaded, [images.sources[i].read() for i in training])
    tested = look_at(loaded, [images.sources[i].read() for i in held_out])
    others = _others(loaded, options.unknown)
    labels = torch.from_numpy(images.labels)
    found = [
        measure(
            kind,
            (learned, labels[training]),
            (tested, labels[held_out]),
            others,
            options.directions,
        )
        for kind in options.evidence
    ]
    best = max(found, key=lambda measured: measured.rank)
    for measured in found:
        _log.info("%s: AUROC %.3f", measured.rejection.config.evidence, measured.rank)
    return _save(options, run, loaded, best) | {
        "evidence": {m.rejection.config.evidence: _numbers(m) for m in found},
        "held_out": len(held_out),
        "others": len(others.logits) if others else 0,
    }


def calibrate_scores(loaded: LoadedModel, run: Run) -> dict[str, Any]:
    """Fit the probabilities of an open-world model on the held-out part of its memory."""
    model, metadata = loaded.model, loaded.metadata
    assert isinstance(model, OpenWorldModel)
    if not metadata.memory:
        raise DataError(f"{loaded.directory} has no memory to calibrate on")
    memory = load_memory(loaded.directory / MEMORY_NAME)
    samples = memory.held_out()
    features = features_of(model, samples, Inputs(metadata.preprocessing))
    labels = class_indices(samples, model.labels).to(features.device)
    model.head.fit_calibration(features, labels)
    if model.head.calibration is None:
        raise DataError(f"{len(samples)} held-out samples are too few to calibrate on")
    save_model(
        run.out / "checkpoint",
        model,
        metadata.labels,
        metadata.preprocessing,
        provenance=metadata.provenance,
        write_memory=lambda folder: save_memory(memory, folder),
        replace=True,
    )
    return {
        "checkpoint": "checkpoint",
        "chosen": "",
        "evidence": {},
        "held_out": len(samples),
        "others": 0,
    }


def _images(options: CalibrateOptions, labels: Sequence[str]) -> ImageSet:
    """Images of the classifier's classes, numbered as it numbers them."""
    images = open_images(options.data, options.layout)
    if missing := sorted(set(labels) - set(images.class_names)):
        raise DataError(f"{options.data} has no images of {', '.join(missing)}")
    chosen = options.domains or images.domain_names
    wanted = np.isin(images.domains, [images.domain_index(name) for name in chosen])
    number = {label: index for index, label in enumerate(labels)}
    of_class = np.array([number.get(name, -1) for name in images.class_names])[images.labels]
    kept = np.flatnonzero(wanted & (of_class >= 0))
    return replace(images.select(kept), labels=of_class[kept], class_names=tuple(labels))


def _divided(
    images: ImageSet, options: CalibrateOptions, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of images that classes are described by, and of those that are tested."""
    if not options.held_out_domains:
        return split(images.labels, options.held_out_share, seed, images.groups)
    apart = [images.domain_index(name) for name in options.held_out_domains]
    tested = np.isin(images.domains, apart)
    for side, which in (("held-out", tested), ("other", ~tested)):
        present = set(images.labels[which].tolist())
        missing = [name for i, name in enumerate(images.class_names) if i not in present]
        if missing:
            raise DataError(
                f"the {side} domains have no images of {', '.join(missing)}: of every class some "
                "are held out, and others describe it; choose other held_out_domains, or none"
            )
    return np.flatnonzero(~tested), np.flatnonzero(tested)


def _others(loaded: LoadedModel, folder: str) -> Seen | None:
    if not folder:
        return None
    files = list(image_files(Path(folder), Path(folder)))
    if not files:
        raise DataError(f"{folder} has no images")
    return look_at(loaded, [file.read() for file in files])


@torch.no_grad()
def look_at(loaded: LoadedModel, images: Sequence[np.ndarray]) -> Seen:
    """Features and logits of images."""
    model, seen = loaded.model, []
    handle = _last_layer(model).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    logits = []
    try:
        for start in range(0, len(images), _CHUNK):
            output = model(loaded.prepare(images[start : start + _CHUNK]))
            logits.append(output if isinstance(output, Tensor) else output.logits)
    finally:
        handle.remove()
    return Seen(torch.cat(seen).cpu(), torch.cat(logits).cpu())


def _last_layer(model: nn.Module) -> nn.Module:
    assert isinstance(model.classifier, nn.Module)
    return model.classifier


def measure(
    kind: Evidence,
    learned: tuple[Seen, Tensor],
    tested: tuple[Seen, Tensor],
    others: Seen | None,
    directions: int,
) -> Measured:
    """Fit one kind of evidence, and measure it on the held-out images."""
    (seen, labels), classes = tested, tested[0].logits.shape[1]
    module = Rejection(seen.features.shape[1], classes, RejectionConfig(kind, directions))
    module.fit_classes(learned[0].features, learned[1])
    if kind == "combined":
        _fit_weights(module, seen, labels, others)
    known = module.evidence(seen.features, seen.logits)
    left_out = _without_own(module, seen, labels)
    apart = module.evidence(others.features, others.logits) if others else None
    unknown = left_out if apart is None else torch.cat([left_out, apart])
    weight = torch.cat([_shares(len(left_out)), _shares(0 if apart is None else len(apart))])
    (slope,), bias = fit_logistic(known[:, None], unknown[:, None], weight)
    module.slope.fill_(slope)
    module.bias.fill_(bias)
    module.temperature.fill_(fit_temperature(seen.logits, labels))
    probabilities = module(seen.features, seen.logits).exp()
    confidence, answer = probabilities.max(1)
    return Measured(
        module,
        auroc(known, left_out) or 0.0,
        None if apart is None else auroc(known, apart),
        calibration_error(confidence, answer == labels) or 0.0,
        float(probabilities[:, :-1].max(1).values.mean()),
    )


def _shares(count: int) -> Tensor:
    return torch.full((count,), 1 / max(count, 1), dtype=torch.float64)


def _without_own(module: Rejection, seen: Seen, labels: Tensor) -> Tensor:
    """The evidence for images whose class is taken away, so that they are unknown, [N]."""
    logits = seen.logits.scatter(1, labels[:, None], -1e4)
    if not module.config.uses_distance:
        return module.summed_up(logits, logits)
    each = module.class_evidence(seen.features)
    return module.summed_up(each.scatter(1, labels[:, None], -1e4), logits)


def _fit_weights(module: Rejection, seen: Seen, labels: Tensor, others: Seen | None) -> None:
    """Set the weights of energy and distance so that their sum tells known from unknown best."""
    columns = []
    for weights in ((1.0, 0.0), (0.0, 1.0)):
        module.weights.copy_(torch.tensor(weights))
        known = module.evidence(seen.features, seen.logits)
        unknown = [_without_own(module, seen, labels)]
        unknown += [module.evidence(others.features, others.logits)] if others else []
        columns.append((known, torch.cat(unknown)))
    weight = torch.cat([_shares(len(labels)), _shares(len(others.logits) if others else 0)])
    sides = [torch.stack(side, 1) for side in zip(*columns, strict=True)]
    slopes, _ = fit_logistic(sides[0], sides[1], weight)
    module.weights.copy_(torch.tensor(slopes).clamp_min(0))


def fit_logistic(
    known: Tensor, unknown: Tensor, unknown_weight: Tensor
) -> tuple[list[float], float]:
    """Slopes and bias of the log odds of being known, from evidence [N, K]; sides count alike."""
    values = torch.cat([known, unknown]).double()
    centre, unit = values.mean(0), values.std(0).clamp_min(1e-12)
    values = (values - centre) / unit
    target = torch.cat([torch.ones(len(known)), torch.zeros(len(unknown))]).double()
    weight = torch.cat([_shares(len(known)), unknown_weight / unknown_weight.sum()])
    found = torch.zeros(values.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([found], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        odds = values @ found[:-1] + found[-1]
        each = functional.binary_cross_entropy_with_logits(odds, target, reduction="none")
        total = (weight * each).sum() + 1e-5 * found.square().sum()
        total.backward()
        return total

    optimiser.step(loss)
    slopes = found.detach()[:-1].clamp_min(1e-6) / unit  # more evidence never speaks against it
    return slopes.tolist(), float(found.detach()[-1] - slopes @ centre)


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature that makes the right classes of held-out images most probable."""
    logarithm = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([logarithm], max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        total = functional.cross_entropy(logits.double() / logarithm.exp(), labels)
        total.backward()
        return total

    optimiser.step(loss)
    return math.exp(min(max(logarithm.item(), -5.0), 5.0))


def _save(
    options: CalibrateOptions, run: Run, loaded: LoadedModel, best: Measured
) -> dict[str, Any]:
    model, metadata = loaded.model, loaded.metadata
    assert isinstance(model, Classifier | PlaceClassifier)
    model.rejection = best.rejection.to(loaded.device)
    model.source_confidence = best.source_confidence
    before = metadata.provenance
    metrics = {**before.metrics, **{f"rejection_{k}": v for k, v in _numbers(best).items()}}
    checkpoint = save_model(
        run.out / "checkpoint",
        model,
        metadata.labels,
        metadata.preprocessing,
        domains=metadata.domains,
        provenance=run.provenance(metrics),
        replace=True,
    )
    about = (
        f"Made from `{Path(options.checkpoint).name}` ({before.command or 'unknown origin'}; data "
        f"{before.data or 'unknown'}): the same network, which now also answers that an image "
        f"shows none of its classes, by {best.rejection.config.evidence}."
    )
    write_model_card(checkpoint, f"{metadata.method}, with rejection", about, {})
    return {"checkpoint": "checkpoint", "chosen": best.rejection.config.evidence}


def _numbers(measured: Measured) -> dict[str, float]:
    values = {
        "auroc_left_out": measured.auroc_left_out,
        "auroc_others": measured.auroc_others,
        "calibration_error": measured.calibration_error,
        "source_confidence": measured.source_confidence,
        "temperature": float(measured.rejection.temperature),
    }
    return {name: value for name, value in values.items() if value is not None}


COMMAND = Command(
    "calibrate",
    "Calibrates the scores of a model; a classifier also learns to answer unknown.",
    CalibrateOptions,
    run_calibrate,
    {
        "checkpoint": "the model with its rejection, a folder relative to result.json",
        "chosen": "of a classifier, the kind of evidence that ranks known above unknown best",
        "evidence": "for max_logit, energy, distance, combined: auroc_left_out (against held-out "
        "images with\n      their class taken away), auroc_others (against the pictures of "
        "--unknown), calibration_error (of images\n      of known classes), source_confidence "
        "(mean probability of their most probable\n      class, for ONDA) and temperature",
        "held_out, others": "images measured on",
    },
)
