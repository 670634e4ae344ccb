# SPDX-License-Identifier: Apache-2.0
"""One run of the evaluation of names: train on seen classes in source domains, ask for others.

The output of the frozen stages is computed once for all runs; what trains is behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD

from newfound_core.errors import DataError
from newfound_core.naming import MixingConfig, cumix_loss
from newfound_core.preprocessing import Preprocessing
from newfound_training.data import Pixels
from newfound_training.places.data import BalancedBatches

DELTAS = np.linspace(0.0, 4.0, 41)  # of calibrated stacking, in standard deviations of scores


@dataclass(frozen=True)
class Maps:
    """All images behind the frozen stages, with class and domain numbers."""

    values: Tensor  # [N, channels, h, w], half precision
    labels: np.ndarray
    domains: np.ndarray


@dataclass(frozen=True)
class Schedule:
    """How a run trains."""

    epochs: int
    steps: int  # in an epoch
    batch_size: int
    lr: float
    new_lr: float
    momentum: float
    weight_decay: float


@torch.no_grad()
def compute_maps(
    frozen: nn.Module, pixels: Pixels, preprocessing: Preprocessing, batch: int = 32
) -> Maps:
    """Run every image through the frozen stages."""
    frozen.eval()
    parts = []
    for start in range(0, len(pixels), batch):
        images = [pixels[i] for i in range(start, min(start + batch, len(pixels)))]
        parts.append(frozen(preprocessing.batch(images)).half())
    images_ = pixels.images
    return Maps(torch.cat(parts), np.asarray(images_.labels), np.asarray(images_.domains))


class ProjectedClasses(nn.Module):
    """g and the fixed vectors of the seen classes: features to scores [N, seen]."""

    def __init__(self, feature_dim: int, vectors: np.ndarray, spread: float) -> None:
        super().__init__()
        self.projection = nn.Linear(feature_dim, vectors.shape[1])
        nn.init.normal_(self.projection.weight, std=spread)
        nn.init.zeros_(self.projection.bias)
        self.vectors = torch.as_tensor(vectors, dtype=torch.float32)

    def forward(self, features: Tensor) -> Tensor:
        """Scores of the seen classes."""
        return self.projection(features) @ self.vectors.T


def source_members(maps: Maps, classes: Sequence[int], domains: Sequence[int]) -> list[np.ndarray]:
    """Rows of the seen classes in each source domain."""
    found = [np.flatnonzero(np.isin(maps.labels, classes) & (maps.domains == d)) for d in domains]
    if any(len(rows) < 2 for rows in found) or len(classes) < 2:
        raise DataError("training needs two seen classes, and two images of them in each domain")
    return found


def train_cell(
    tail: nn.Module,
    head: nn.Module,
    maps: Maps,
    members: Sequence[np.ndarray],
    *,
    number_of: dict[int, int],
    schedule: Schedule,
    mixing: MixingConfig,
    seed: int,
) -> float:
    """Train tail and head in place; the mean of min(lambda, 1 - lambda) over all mixes.

    Normalisation layers of the tail keep their statistics, as in the thesis's PACS runs.
    """
    generator = np.random.default_rng([seed, 18])
    batches = BalancedBatches(members, schedule.batch_size, seed)
    groups = [
        {"params": [p for p in tail.parameters() if p.requires_grad], "lr": schedule.lr},
        {"params": list(head.parameters()), "lr": schedule.new_lr},
    ]
    optimizer = SGD(
        [g for g in groups if g["params"]],
        lr=schedule.lr,
        momentum=schedule.momentum,
        weight_decay=schedule.weight_decay,
    )
    tail.eval()
    shares = []
    for epoch in range(schedule.epochs):
        if epoch == round(0.75 * schedule.epochs):
            for group in optimizer.param_groups:
                group["lr"] /= 10
        for step in range(schedule.steps):
            rows, domains = batches(epoch * schedule.steps + step)
            labels = torch.tensor([number_of[int(c)] for c in maps.labels[rows]])
            x = maps.values[torch.from_numpy(rows)].float()
            terms = cumix_loss(
                tail,
                head,
                x,
                labels,
                domains=domains,
                config=mixing,
                epoch=epoch,
                generator=generator,
            )
            optimizer.zero_grad()
            terms.total.backward()
            optimizer.step()
            shares.append(terms.mixed_share)
    return float(np.mean(shares))


@torch.no_grad()
def features_of(tail: nn.Module, maps: Maps, rows: np.ndarray, batch: int = 64) -> Tensor:
    """Features of rows of the maps."""
    tail.eval()
    parts = [
        tail(maps.values[torch.from_numpy(rows[start : start + batch])].float())
        for start in range(0, len(rows), batch)
    ]
    return torch.cat(parts)


def per_class_accuracy(predicted: np.ndarray, truth: np.ndarray) -> float:
    """Mean over the classes that have images."""
    if not len(truth):
        raise DataError("there is no image of the classes asked for in a domain: choose others "
                        "(--seen, --targets), or add images")  # fmt: skip
    return float(np.mean([(predicted[truth == c] == c).mean() for c in np.unique(truth)]))


def generalised(scores: np.ndarray, truth: np.ndarray, seen: int, delta: float) -> float:
    """Harmonic mean of the accuracies of seen and unseen classes, all asked together.

    Calibrated stacking (Chao et al., ECCV 2016): `delta` standard deviations are subtracted from
    the scores of the first `seen` classes. Images of both kinds.
    """
    moved = scores.copy()
    moved[:, :seen] -= delta * scores.std()
    predicted = moved.argmax(axis=1)
    old = truth < seen
    parts = [per_class_accuracy(predicted[part], truth[part]) for part in (old, ~old)]
    return float(2 * parts[0] * parts[1] / max(sum(parts), 1e-12))
