# SPDX-License-Identifier: Apache-2.0
"""Training losses of DeepNNO and B-DOC, each the mean over a batch, and rejection thresholds.

Thesis 3.5.3, equations 3.27 and 3.28, and 3.5.4, equations 3.30 to 3.32 and 3.35. Thresholds are
fitted on samples that training has not seen.
"""

import torch
from torch import Tensor
from torch.nn import functional


def threshold_loss(distances: Tensor, labels: Tensor, thresholds: Tensor) -> Tensor:
    """Sum over samples and classes of max(0, m (d_k - threshold_k)), m = +1 for the own class.

    Too small a threshold costs what its own samples lie beyond it; too large a one costs what
    other samples lie within it. (The thesis prints m the other way round, against its own
    explanation: its minimum accepts other classes and rejects its own.)
    """
    sign = own_class(labels, distances.shape[1]).to(distances.dtype) * 2 - 1
    return (sign * (distances - thresholds)).clamp_min(0).sum()


def exact_thresholds(distances: Tensor, labels: Tensor) -> Tensor:
    """Return the thresholds [C] that minimise `threshold_loss`, solved class by class.

    Per class the loss is convex and piecewise linear with a kink at every sample's distance.
    Left of all kinks its slope is minus the number n of own samples, and each kink, of own and
    of other samples alike, raises it by one: the minimum reaches from the n-th to the
    (n+1)-th smallest distance. The middle is taken: the largest margin to both sides. A class
    without own samples gets the median of the other thresholds.
    """
    valid = ~distances.isnan().any(dim=1)
    distances, labels = distances[valid].double(), labels[valid]
    own = own_class(labels, distances.shape[1]).sum(dim=0)
    if not len(distances):
        return fill_missing(distances.new_zeros(len(own)), own > 0)
    kinks = distances.sort(dim=0).values
    low = kinks.gather(0, (own - 1).clamp_min(0)[None])[0]
    high = kinks.gather(0, own.clamp_max(len(kinks) - 1)[None])[0]
    return fill_missing((low + high) / 2, own > 0)


def percentile_thresholds(distances: Tensor, labels: Tensor, percentile: float) -> Tensor:
    """Return per class the percentile of its own samples' distances."""
    classes = distances.shape[1]
    thresholds = torch.zeros(classes, dtype=torch.float64, device=distances.device)
    has_samples = torch.zeros(classes, dtype=torch.bool, device=distances.device)
    for index in labels.unique().tolist():
        own = distances[labels == index, index].double()
        own = own[own.isfinite()]
        if len(own):
            thresholds[index], has_samples[index] = own.quantile(percentile / 100), True
    return fill_missing(thresholds, has_samples)


def fill_missing(thresholds: Tensor, present: Tensor) -> Tensor:
    """Give classes without samples the median of the other thresholds (infinity if none)."""
    default = thresholds[present].median() if present.any() else thresholds.new_tensor(torch.inf)
    return torch.where(present, thresholds, default)


def percentile_threshold(distances: Tensor, labels: Tensor, percentile: float) -> float:
    """Return one threshold for all classes: a percentile of the distances to the own mean."""
    own = distances.gather(1, labels[:, None]).double()
    own = own[own.isfinite()]
    return float(own.quantile(percentile / 100)) if len(own) else torch.inf


def leave_one_class_out_threshold(distances: Tensor, labels: Tensor) -> float:
    """Return the one threshold that best tells a class from classes it was left out of.

    A sample's distance to the nearest mean is what it has while its class is known; without
    its own mean it is what it would have were its class unknown. The threshold maximises the
    harmonic mean of knowns accepted and unknowns rejected.
    """
    valid = ~distances.isnan().any(dim=1)
    distances, labels = distances[valid].double(), labels[valid]
    if distances.shape[1] < 2 or not len(distances):
        return percentile_threshold(distances, labels, 50.0)
    as_known = distances.min(dim=1).values.sort().values
    without_own = distances.masked_fill(own_class(labels, distances.shape[1]), torch.inf)
    as_unknown = without_own.min(dim=1).values.sort().values
    candidates = torch.cat([as_known, as_unknown]).unique()
    accepted = torch.searchsorted(as_known, candidates, right=True) / len(as_known)
    rejected = 1 - torch.searchsorted(as_unknown, candidates, right=True) / len(as_unknown)
    harmonic = 2 * accepted * rejected / (accepted + rejected).clamp_min(1e-12)
    return float(candidates[harmonic.argmax()])


def own_class(labels: Tensor, classes: int) -> Tensor:
    """Return [N, C] booleans: whether the column is the sample's class."""
    return labels[:, None] == torch.arange(classes, device=labels.device)


def one_against_rest_loss(distances: Tensor, labels: Tensor, *, margin: float) -> Tensor:
    """DeepNNO: -log s_own - sum over others of log(1 - s), with s = exp(-distance / 2).

    `margin` keeps 1 - s from reaching zero, where the logarithm has no bound.
    """
    own = own_class(labels, distances.shape[1])
    attraction = distances[own].sum() / 2  # -log s, without the detour
    remainder = -torch.expm1(-distances / 2)  # 1 - s, exact for small distances too
    repulsion = -remainder.clamp_min(margin).log().masked_fill(own, 0).sum()
    return (attraction + repulsion) / max(len(labels), 1)


def global_clustering_loss(distances: Tensor, labels: Tensor) -> Tensor:
    """B-DOC: cross entropy of the softmax over negative distances to the class means."""
    if not len(labels):
        return distances.sum()  # zero, with a gradient
    return functional.cross_entropy(-distances, labels)


def local_clustering_loss(distances: Tensor, labels: Tensor) -> Tensor:
    """B-DOC: soft nearest neighbour loss over the pairwise distances [N, N] of a batch.

    -log of the share of a sample's neighbourhood that its own class holds. Samples with no
    partner of their class in the batch are left out; where none has one the loss is zero.
    """
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    partner = (labels[:, None] == labels) & ~itself
    rows = partner.any(dim=1)
    if not rows.any():
        return distances[:0].sum()
    closeness = -distances[rows]
    everyone = closeness.masked_fill(itself[rows], -torch.inf).logsumexp(dim=1)
    own = closeness.masked_fill(~partner[rows], -torch.inf).logsumexp(dim=1)
    return (everyone - own).mean()


def distillation_loss(features: Tensor, old_features: Tensor) -> Tensor:
    """Distance of the features to those of the previous step's network, not squared."""
    if not len(features):
        return features.sum()  # zero, with a gradient
    return torch.linalg.vector_norm(features - old_features, dim=1).mean()
