# SPDX-License-Identifier: Apache-2.0
"""Choice of the normalisation layers that ONDA moves, on held-out images of the source alone.

Images as they are, in another light, flattened and as outlines stand for targets; each is
streamed shuffled and sorted by class. Among the choices that never lose more than two points
against the source, the one that gains most on average is taken; if all lose more, the one that
loses least.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.classifier import Classifier
from newfound_core.models import load_model, save_model, write_model_card
from newfound_core.onda import OndaConfig
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.onda.watch import confidence
from newfound_core.preprocessing import Preprocessing
from newfound_training.data import load_pixels, open_images
from newfound_training.data.sampling import split
from newfound_training.online.replay import predict_with, replay
from newfound_training.running.command import Command, Run
from newfound_training.running.options import CommonOptions, option

_log = logging.getLogger(__name__)

TOLERATED = 0.02  # loss of accuracy against the source in the worst stream
FEWEST = 30  # images; with fewer a choice would be chance
_LUMINANCE = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)


@dataclass(frozen=True)
class LayerChoice:
    """The layers that adapt, and what each choice gains over the source in every stream."""

    layers: str
    confidence: float | None = None  # mean probability of the source's answers
    gains: dict[str, dict[str, float]] = field(default_factory=dict)  # by choice and stream

    def apply_to(self, model: Classifier) -> None:
        """Let the model name the choice."""
        model.adaptive_layers, model.source_confidence = self.layers, self.confidence

    def facts(self) -> dict[str, Any]:
        """What was found, for result.json and the model's card."""
        return {"adaptive_layers": self.layers, "source_confidence": self.confidence}


def choose_layers(
    model: nn.Module,
    images: Sequence[np.ndarray],
    labels: np.ndarray,
    preprocessing: Preprocessing,
    *,
    device: torch.device,
    seed: int = 0,
) -> LayerChoice:
    """The layers of a source model that should follow a stream; all if images are too few."""
    if len(images) < FEWEST:
        return LayerChoice("all")
    pictures = torch.stack([torch.from_numpy(np.array(image)) for image in images])
    pictures = pictures.permute(0, 3, 1, 2).float() / 255
    gains: dict[str, dict[str, float]] = {name: {} for name in candidates(model)}
    for target, change in TARGETS.items():
        changed = (255 * change(pictures)).round().byte().permute(0, 2, 3, 1).numpy()
        prepared = preprocessing.batch(list(changed)).to(device)

        def frames(indices: np.ndarray, prepared: Tensor = prepared) -> Tensor:
            return prepared[torch.from_numpy(indices)]

        for order, indices in _orders(labels, seed).items():
            wanted = labels[indices]
            source = (predict_with(model, None, frames, indices) == wanted).mean()
            for name, of_choice in gains.items():
                config = OndaConfig.thesis(layers=name, balanced=True)
                found = (replay(model, frames, indices, config) == wanted).mean()
                of_choice[f"{target}, {order}"] = float(found - source)
    usual = mean_confidence(model, preprocessing.batch(list(images)).to(device))
    choice = LayerChoice(best_choice(gains), usual, gains)
    _log.info("layers that adapt: %s", choice.layers)
    return choice


@torch.no_grad()
def mean_confidence(model: nn.Module, images: Tensor) -> float:
    """Mean probability of the answers."""
    found = [confidence(model, model(part))[0] for part in images.split(50)]
    return float(torch.cat(found).mean())


def candidates(model: nn.Module) -> list[str]:
    """All layers, the last third of them, and the last four."""
    count = len(NormalizationLayers(model).names)
    return [*(f"last:{n}" for n in sorted({4, count // 3}) if 0 < n < count), "all"]


def best_choice(gains: dict[str, dict[str, float]]) -> str:
    """The choice with the highest mean gain of those that are safe, or the safest."""
    worst = {name: min(of_choice.values()) for name, of_choice in gains.items()}
    safe = [name for name, loss in worst.items() if loss >= -TOLERATED]
    if not safe:
        return max(worst, key=lambda name: worst[name])
    return max(safe, key=lambda name: float(np.mean(list(gains[name].values()))))


def _orders(labels: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng([seed, 8])
    shuffled = generator.permutation(len(labels))
    rank = generator.permutation(int(labels.max()) + 1)
    by_class = shuffled[np.argsort(rank[labels[shuffled]], kind="stable")]
    return {"shuffled": shuffled, "sorted": by_class}


# Targets: pictures [N, 3, H, W] in 0 to 1 to the same in another domain.


def in_other_light(pictures: Tensor) -> Tensor:
    """Darker and redder, with another contrast."""
    lamp = torch.tensor([1.0, 0.7, 0.45]).view(1, 3, 1, 1)
    return (pictures**1.4 * lamp).clamp(0, 1)


def flattened(pictures: Tensor) -> Tensor:
    """Smooth areas of few colours."""
    return (_blurred(pictures, 2) * 4).round() / 4


def outlined(pictures: Tensor) -> Tensor:
    """Dark outlines on white."""
    grey = (pictures * _LUMINANCE).sum(1, keepdim=True)
    difference = _blurred(grey, 1) - _blurred(grey, 4)
    return (1 - 8 * difference.abs()).clamp(0, 1).expand_as(pictures)


def _blurred(pictures: Tensor, radius: int) -> Tensor:
    padded = functional.pad(pictures, (radius,) * 4, mode="replicate")
    return functional.avg_pool2d(padded, 2 * radius + 1, stride=1)


TARGETS = {
    "as they are": lambda pictures: pictures,
    "other light": in_other_light,
    "flattened": flattened,
    "outlined": outlined,
}


@dataclass(frozen=True)
class LayerOptions(CommonOptions):
    """A source model and images of its source domains."""

    checkpoint: str = option("", "folder of a checkpoint of method source", required=True)
    domains: tuple[str, ...] = option((), "domains it was trained on; all if none is named")
    validation_share: float = option(0.1, "of every class, held out in its training; 1 is all")
    resize: Literal["squash", "short_side_center_crop"] = option("squash", "as in its training")
    frames: int = option(200, "images at most")


def run_choose_layers(options: LayerOptions, run: Run) -> dict[str, Any]:
    """Write `<out>/checkpoint`, the same model that names the layers to adapt."""
    loaded = load_model(options.checkpoint, "source", run.device)
    size = loaded.metadata.preprocessing.size
    pixels = load_pixels(open_images(options.data, options.layout), size, strict=options.strict)
    names = options.domains or pixels.images.domain_names
    wanted = [pixels.images.domain_index(name) for name in names]
    pixels = pixels.select(np.flatnonzero(np.isin(pixels.images.domains, wanted)))
    labels = pixels.images.labels
    held_out = np.arange(len(labels))
    if options.validation_share < 1:
        _, held_out = split(labels, options.validation_share, run.seed, pixels.images.groups)
    held_out = np.random.default_rng([run.seed, 9]).permutation(held_out)[: options.frames]
    choice = choose_layers(
        loaded.model,
        [pixels[i] for i in held_out],
        labels[held_out],
        loaded.metadata.preprocessing,
        device=run.device,
        seed=run.seed,
    )
    assert isinstance(loaded.model, Classifier)
    choice.apply_to(loaded.model)
    provenance = loaded.metadata.provenance
    metrics = {**provenance.metrics, **choice.facts()}
    checkpoint = save_model(
        run.out / "checkpoint",
        loaded.model,
        loaded.labels,
        loaded.metadata.preprocessing,
        domains=loaded.metadata.domains,
        provenance=replace(provenance, metrics=metrics),
        replace=True,
    )
    about = "The same network, which now names the layers that ONDA should adapt."
    write_model_card(checkpoint, "Source model", about, {})
    return {"checkpoint": "checkpoint", **choice.facts(), "gains": choice.gains}


COMMAND = Command(
    "choose-layers",
    "Chooses the layers that ONDA adapts, on held-out images of the source.",
    LayerOptions,
    run_choose_layers,
    {
        "checkpoint": "the same model with its choice, a folder relative to result.json",
        "adaptive_layers": "all, or the last n as last:n",
        "source_confidence": "mean probability of the answers on the held-out images",
        "gains": "for each choice, the gain of accuracy over the source in each stream",
    },
)
