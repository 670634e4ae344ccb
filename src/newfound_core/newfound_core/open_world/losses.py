# SPDX-License-Identifier: Apache-2.0
"""Training losses of DeepNNO and B-DOC, each the mean over a batch."""

import torch
from torch import Tensor
from torch.nn import functional

from newfound_core.open_world.thresholds import own_class


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
    partner of their class in the batch are left out; where nobody has one the loss is zero.
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
    """How far the features moved from those of the previous step's network, not squared."""
    if not len(features):
        return features.sum()  # zero, with a gradient
    return torch.linalg.vector_norm(features - old_features, dim=1).mean()
