# SPDX-License-Identifier: Apache-2.0
"""Latent domains from a source model: converted, given statistics of their own, folded back."""

import copy
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from newfound_core.classifier import Classifier
from newfound_core.conversion import DomainMixture, convert_batchnorm, fold_assignment
from newfound_core.errors import DataError
from newfound_core.latent.branches import CentreBranch, LatentConfig
from newfound_core.latent.classifier import LatentClassifier
from newfound_core.stem_clusters import Clusters

BATCH = 64  # images behind one estimate of statistics, as in training
Images = Callable[[np.ndarray], Tensor]  # indices to prepared images on the model's device


def from_source(source: Classifier, config: LatentConfig) -> LatentClassifier:
    """A copy of a source classifier whose domains all begin with its statistics."""
    source = copy.deepcopy(source)
    model = LatentClassifier(
        source.backbone,
        source.classifier.out_features,
        config,
        output_norm=source.output_norm,
        source_confidence=source.source_confidence,
    )
    model.classifier, model.rejection = source.classifier, source.rejection
    model.norm = convert_batchnorm(source.norm, config.domains, model.assignment)
    model._mixture = DomainMixture(model)
    return model.to(source.classifier.weight).train(source.training)


def clustered(source: Classifier, clusters: Clusters, images: Images) -> LatentClassifier:
    """A source classifier with statistics of each cluster; nothing is trained.

    A cluster of one image has no variance and keeps the statistics of the source.
    """
    count = len(clusters.centres)
    model = from_source(source, LatentConfig(0, count, assignment="centres")).eval()
    if count > 1:
        branch = model.branches["target"]
        assert isinstance(branch, CentreBranch)
        branch.take(clusters)
    assignment = clusters.assignment.numpy()
    for domain in range(count):
        chosen = np.flatnonzero(assignment == domain)
        # Shuffled: neighbouring frames of a video look alike.
        chosen = np.random.default_rng([domain, 11]).permutation(chosen)
        re_estimate_domain(model, domain, map(images, even_parts(chosen)))
    return model


def even_parts(indices: np.ndarray, size: int = BATCH) -> list[np.ndarray]:
    """Parts of nearly equal length, at most `size`: none is left with one image."""
    return np.array_split(indices, max(1, -(-len(indices) // size)))


def as_plain(model: LatentClassifier) -> Classifier:
    """The plain network that a model with one domain in all is."""
    if model.domains != 1:
        raise DataError(f"a model with {model.domains} domains is no plain network")
    alone = torch.ones(1)
    plain = Classifier(
        fold_assignment(model.backbone, alone),  # type: ignore[arg-type]
        model.classes,
        output_norm=model.output_norm,
        source_confidence=model.source_confidence,
    )
    plain.classifier = copy.deepcopy(model.classifier)
    plain.norm = fold_assignment(model.norm, alone)  # type: ignore[assignment]
    plain.rejection = copy.deepcopy(model.rejection)
    return plain.train(model.training)


@torch.no_grad()
def re_estimate_domain(model: LatentClassifier, domain: int, batches: Iterable[Tensor]) -> int:
    """Give a domain the statistics of prepared images, batch by batch as in training.

    All other statistics stay. Returns the number of images behind it: batches of one image have
    no variance and are left out.
    """
    weights = functional.one_hot(torch.tensor(domain), model.domains)
    layers = model.domain_layers()
    usual = [layer.momentum for layer in layers]
    seen = 0
    try:
        for images in batches:
            if len(images) < 2:
                continue
            seen += len(images)
            for layer in layers:
                layer.train()
                layer.momentum = len(images) / seen  # the mean over all images
            with model.assignment.use(weights.to(images)):
                features = model.backbone(images)
                model.norm(model.classifier(features))
    finally:
        for layer, momentum in zip(layers, usual, strict=True):
            layer.eval()
            layer.momentum = momentum
    return seen
