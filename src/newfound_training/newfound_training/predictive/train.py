# SPDX-License-Identifier: Apache-2.0
"""`train_predictive`: a graph of domains around a source model, for robots that arrive adapted.

Statistics of every domain are estimated, and the regression that predicts those of others is
chosen by leaving one domain out at a time. Nothing is trained and no label is read, unless the
domains get a scale and a bias of their own (`--affine`).
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from newfound_core.classifier import Classifier
from newfound_core.errors import ConfigError, DataError
from newfound_core.models import LoadedModel, load_model, save_model, write_model_card
from newfound_core.predictive import AdaGraphClassifier, DomainGraph, Schema
from newfound_training.data import Pixels, load_pixels, open_images
from newfound_training.latent.footage import load_footage
from newfound_training.predictive.affine import AffineTraining
from newfound_training.predictive.nodes import (
    Described,
    DomainImages,
    PixelsOf,
    build_graph,
    clusters_of,
    config_values,
    metadata_of_names,
    read_metadata,
)
from newfound_training.predictive.options import PredictiveOptions
from newfound_training.predictive.prior import choose_prior
from newfound_training.running.command import Command, Run, require_same_images

_log = logging.getLogger(__name__)


def run_train_predictive(options: PredictiveOptions, run: Run) -> dict[str, Any]:
    """Write `<out>/checkpoint`, the source model with the graph."""
    if run.process_group.world_size > 1:
        raise ConfigError("train-predictive runs in one process")
    loaded = load_model(options.checkpoint, ("source", "adagraph"), run.device)
    schema, domains, corrupt = domains_of(options, loaded, run)

    def train(graph: DomainGraph, kept: list[DomainImages]) -> DomainGraph:
        if options.affine == "source":
            return graph
        state = run.out / "affine.safetensors"
        how = options.affine_options()
        return AffineTraining(loaded, graph, kept, how).run(run.seed, state)

    built = build_graph(
        loaded, schema, domains, run.seed, measured_by=options.measured, train=train
    )
    graph, facts = built.graph, built.facts
    prior, priors = choose_prior(
        loaded,
        graph,
        built.domains,
        built.measured,
        frames_per_update=options.frames_per_update,
        seed=run.seed,
    )
    graph = graph.with_config(replace(graph.config, prior_frames=prior))
    assert isinstance(loaded.model, Classifier)
    _save(AdaGraphClassifier.around(loaded.model, graph), loaded, facts, run)
    return {
        "checkpoint": "checkpoint",
        "nodes": {node.name: node.images for node in graph.nodes},
        "fields": list(graph.schema.names),
        "config": config_values(graph.config),
        "priors": priors,
        "corrupt_images": corrupt,
        **facts,
    }


def domains_of(
    options: PredictiveOptions, loaded: LoadedModel, run: Run
) -> tuple[Schema | None, list[DomainImages], list[str]]:
    """The domains with their images, and the schema of what is written of them."""
    if options.footage:
        footage = load_footage(
            options.footage,
            options.footage_frames,
            loaded.metadata.preprocessing,
            run,
            topic=options.image_topic,
            strict=options.strict,
        )
        frames: Sequence[np.ndarray] = footage.frames  # type: ignore[assignment]
        found = clusters_of(loaded, frames, options.clusters, run.seed)
        damaged = f"{footage.damaged} frames of the footage"
        return None, found, [*footage.unreadable, *([damaged] if footage.damaged else [])]
    if not options.data:
        raise ConfigError("give --data with described domains, or --footage")
    images = open_images(options.data, options.layout)
    names = options.domains or images.domain_names
    for name in names:
        images.domain_index(name)
    schema: Schema | None = None
    described: Described = {}
    if options.metadata:
        schema, described = read_metadata(Path(options.metadata))
        if missing := sorted(set(names) - set(described)):
            raise DataError(
                f"{options.metadata} does not describe {', '.join(missing)}: describe them, or "
                "name the others with --domains"
            )
        if absent := sorted(set(described) - set(images.domain_names)):
            raise DataError(
                f"{options.metadata} describes {', '.join(absent)}, of which {options.data} has "
                "no images: remove them there, or add images"
            )
    elif options.conditions:
        schema, described = metadata_of_names(names, options.conditions)
    prepared = loaded.metadata.preprocessing
    pixels = load_pixels(
        images,
        prepared.size,
        strict=options.strict,
        resize=prepared.resize,
        limit_gb=options.cache_limit_gb,
    )
    require_same_images(pixels.images, run)
    labels = _source_labels(options, pixels, loaded, names)
    found = []
    for name in names:
        own = PixelsOf(pixels.in_domain(name))
        found.append(DomainImages(name, dict(described.get(name, {})), own, labels.get(name)))
    return schema, found, list(pixels.corrupt)


def _source_labels(
    options: PredictiveOptions, pixels: Pixels, loaded: LoadedModel, names: Sequence[str]
) -> dict[str, np.ndarray]:
    """Labels of the source's images, if they are needed."""
    if options.affine == "source":
        return {}
    if options.source_domain not in names:
        raise ConfigError(f"source_domain must be one of {', '.join(names)}")
    if pixels.images.class_names != loaded.labels:
        raise ConfigError(f"{options.data} has other classes than the model")
    return {options.source_domain: pixels.in_domain(options.source_domain).images.labels}


def _save(model: AdaGraphClassifier, loaded: LoadedModel, facts: dict[str, Any], run: Run) -> None:
    metadata = loaded.metadata
    best = {f"drift_{kind}": min(tried.values()) for kind, tried in facts["scores"].items()}
    checkpoint = save_model(
        run.out / "checkpoint",
        model,
        metadata.labels,
        metadata.preprocessing,
        provenance=run.provenance({**metadata.provenance.metrics, **best}),
        replace=True,
    )
    graph = model.domain_graph()
    nodes = graph.nodes
    about = (
        "A source model with a graph of domains: statistics for a domain never seen are composed "
        "from its description (AdaGraph). The network is as it was made "
        f"by `{metadata.provenance.command or 'unknown'}`."
    )
    if graph.scale is not None:
        about += " Every domain has a scale and a bias of its own."
    write_model_card(
        checkpoint,
        f"AdaGraph of {len(nodes)} domains",
        about,
        {"images of the domains": int(np.sum([node.images for node in nodes]))},
    )
    _log.info("checkpoint written to %s", checkpoint)


COMMAND = Command(
    "train-predictive",
    "Makes a graph of domains around a source model, to predict statistics (AdaGraph).",
    PredictiveOptions,
    run_train_predictive,
    {
        "checkpoint": "the model with its graph, a folder relative to result.json",
        "nodes": "images of each domain in the graph",
        "fields": "those of the schema",
        "config": "for each kind of knowledge (described, measured, both) the regression that was "
        "chosen:\n      regression, sigma, ridge, total_variance, measured_weight; prior_frames "
        "that a prediction\n      stands for in each layer; change_threshold of measured fields",
        "scores": "drift of each candidate, in nats, over domains left out one at a time",
        "priors": "the same for each number of prior_frames, and with the best of each layer, "
        "after up to\n      three updates of ONDA",
        "left_out": "domains with fewer than 16 images",
        "merged": "domains that were joined because their descriptions are equal",
        "corrupt_images": "names of those left out",
    },
)
