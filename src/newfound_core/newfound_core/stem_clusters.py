# SPDX-License-Identifier: Apache-2.0
"""Images sorted by light, camera and background, without labels: k-means behind the stem.

The first convolution sees colour, contrast and noise, and little of what an image shows. So the
mean and standard deviation of its channels tell domains apart (they are what batch normalisation
normalises). Ours; mDA's domain branch starts from these clusters, or their centres replace it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from newfound_core.backbones import Backbone
from newfound_core.errors import ConfigError, DataError

RESTARTS = 8
MOST_ITERATIONS = 100
FLAT = 1e-4  # a channel that varies less than this between images tells nothing


@dataclass(frozen=True)
class Clusters:
    """A division of images, and what assigns other images to it."""

    assignment: Tensor  # [N] cluster of each image, 0 to k - 1; the largest cluster is 0
    centres: Tensor  # [k, D] in standardised statistics
    mean: Tensor  # [D] of the statistics of all images
    deviation: Tensor  # [D]
    variance: float  # within clusters, per dimension

    @property
    def sizes(self) -> list[int]:
        """Images in each cluster."""
        return torch.bincount(self.assignment, minlength=len(self.centres)).tolist()


def stem_statistics(early: Tensor) -> Tensor:
    """Mean and standard deviation of each channel of a map: [N, C, h, w] to [N, 2 C]."""
    flat = early.flatten(2)
    mean = flat.mean(2)
    variance = (flat - mean[..., None]).square().mean(2)
    return torch.cat([mean, variance.clamp(min=0).sqrt()], 1)


@torch.no_grad()
def measure_stem(backbone: Backbone, batches: Iterable[Tensor]) -> Tensor:
    """Stem statistics of prepared images, given batch by batch, [N, 2 C] on the CPU."""
    training = backbone.training
    backbone.eval()
    try:
        found = [stem_statistics(backbone.early_features(images)).cpu() for images in batches]
    finally:
        backbone.train(training)
    if not found:
        raise DataError("there are no images to sort into domains")
    return torch.cat(found)


def cluster_images(
    backbone: Backbone, batches: Iterable[Tensor], clusters: int, seed: int = 0
) -> Clusters:
    """Sort prepared images into `clusters` domains by their stem statistics."""
    return cluster_statistics(measure_stem(backbone, batches), clusters, seed)


def cluster_statistics(statistics: Tensor, clusters: int, seed: int = 0) -> Clusters:
    """Sort images into clusters by their statistics [N, D], standardised."""
    mean, deviation = _standard(statistics)
    points = (statistics.double() - mean) / deviation
    assignment, centres = k_means(points, clusters, seed)
    order = torch.bincount(assignment, minlength=clusters).argsort(descending=True, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(clusters)
    residuals = points - centres[assignment]
    variance = max(float(residuals.square().mean()), FLAT)
    return Clusters(rank[assignment], centres[order], mean, deviation, variance)


def _standard(statistics: Tensor) -> tuple[Tensor, Tensor]:
    values = statistics.double()
    if not bool(values.isfinite().all()):
        raise DataError("statistics of some images are not finite: look for damaged images")
    return values.mean(0), values.std(0, correction=0).clamp(min=FLAT)


def k_means(points: Tensor, clusters: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Assignment [N] and centres [k, D] of the best of several restarts (k-means++)."""
    if clusters < 1:
        raise ConfigError(f"the number of domains must be at least 1, got {clusters}")
    if len(torch.unique(points, dim=0)) < clusters:
        raise DataError(
            f"{len(points)} images, {len(torch.unique(points, dim=0))} of them different, cannot "
            f"be sorted into {clusters} domains: give more footage, or ask for fewer domains"
        )
    generator = torch.Generator().manual_seed(seed)
    found = [_restart(points, clusters, generator) for _ in range(RESTARTS)]
    _, assignment, centres = min(found, key=lambda result: result[0])
    return assignment, centres


def _restart(
    points: Tensor, clusters: int, generator: torch.Generator
) -> tuple[float, Tensor, Tensor]:
    """Lloyd's iterations from random centres far apart: the sum of squares, and the result."""
    centres = _spread_centres(points, clusters, generator)
    assignment = torch.full((len(points),), -1)
    for _ in range(MOST_ITERATIONS):
        distances = torch.cdist(points, centres)
        nearest = distances.argmin(1)
        empty = (torch.bincount(nearest, minlength=clusters) == 0).nonzero().flatten()
        for cluster in empty:  # it takes the image that fits worst
            worst = distances[torch.arange(len(points)), nearest].argmax()
            nearest[worst], distances[worst] = cluster, 0.0
        if torch.equal(nearest, assignment):
            break
        assignment = nearest
        one_hot = torch.nn.functional.one_hot(assignment, clusters).to(points)
        centres = one_hot.T @ points / one_hot.sum(0)[:, None]
    return float((points - centres[assignment]).square().sum()), assignment, centres


def _spread_centres(points: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """k-means++: each further centre is an image, drawn by its squared distance to the others."""
    chosen = [int(torch.randint(len(points), (1,), generator=generator))]
    for _ in range(clusters - 1):
        squares = torch.cdist(points, points[chosen]).square().min(1).values
        chosen.append(int(torch.multinomial(squares, 1, generator=generator)))
    return points[chosen].clone()
