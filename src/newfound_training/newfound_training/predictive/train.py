# SPDX-License-Identifier: Apache-2.0
"""`train_predictive`: a graph of domains around a source model, for robots that arrive adapted.

Nothing is trained: statistics of every domain are estimated, and the regression that predicts
those of others is chosen by leaving one domain out at a time. No label is read.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from newfound_core.classifier import Classifier
from newfound_core.errors import ConfigError, DataError
from newfound_core.models import LoadedModel, load_model, save_model, write_model_card
from newfound_core.predictive import AdaGraphClassifier, Schema
from newfound_training.data import load_pixels, open_images
from newfound_training.latent.footage import load_footage
from newfound_training.predictive.nodes import (
    Described,
    DomainImages,
    PixelsOf,
    build_graph,
    choose_prior,
    clusters_of,
    config_values,
    metadata_of_names,
    read_metadata,
)
from newfound_training.running.command import Command, Run, require_same_images
from newfound_training.running.options import RunOptions, option

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PredictiveOptions(RunOptions):
    """A source model, and images of other domains: described ones, or any footage."""

    checkpoint: str = option("", "source model, made by train-source", required=True)
    data: str = option("", "folder with the images of described domains; labels are not read")
    layout: str = option("tree", "how the images lie there; see docs/training.md")
    domains: tuple[str, ...] = option((), "domains that become nodes; all if none is named")
    conditions: tuple[str, ...] = option((), "what the parts of a domain's name mean")
    metadata: str = option("", "YAML that describes the domains, instead of their names")
    footage: tuple[str, ...] = option(
        (), "folders, videos, rosbags, sorted into domains that are known by measured fields"
    )
    image_topic: str = option("", "of bags with several cameras")
    clusters: int = option(6, "domains that footage is sorted into")
    footage_frames: int = option(2000, "images of the footage that are used, evenly spaced")
    frames_per_update: int = option(10, "of ONDA, which goes on from a prediction")
    strict: bool = option(False, "stop at a corrupt image instead of leaving it out")
    cache_limit_gb: float = option(20.0, "decoded images are kept on disk up to this size")

    def __post_init__(self) -> None:
        if self.clusters < 2 or self.frames_per_update < 2:
            raise ConfigError("clusters and frames_per_update must be at least 2")
        if self.conditions and self.metadata:
            raise ConfigError("give conditions or metadata, not both")
        if self.footage and (self.conditions or self.metadata or self.data):
            raise ConfigError(
                "footage is known by measured fields alone: give --footage, or --data with "
                "--conditions or --metadata"
            )
        if self.footage_frames < 1:
            raise ConfigError("footage_frames must be at least 1")


def run_train_predictive(options: PredictiveOptions, run: Run) -> dict[str, Any]:
    """Write `<out>/checkpoint`, the source model with the graph."""
    if run.process_group.world_size > 1:
        raise ConfigError("train-predictive runs in one process: nothing is trained")
    loaded = load_model(options.checkpoint, ("source", "adagraph"), run.device)
    schema, domains, corrupt = domains_of(options, loaded, run)
    if len(domains) < 2:
        raise ConfigError(
            f"the graph would have {len(domains)} domain: a source without auxiliary domains is "
            "train-source. Name at least two domains"
        )
    graph, measured, facts = build_graph(loaded, schema, domains, run.seed)
    prior, priors = choose_prior(
        loaded,
        graph,
        domains,
        measured,
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
    of = {name: PixelsOf(pixels.in_domain(name)) for name in names}
    found = [DomainImages(name, dict(described.get(name, {})), of[name]) for name in names]
    return schema, found, list(pixels.corrupt)


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
    nodes = model.domain_graph().nodes
    about = (
        "A source model with a graph of domains: statistics for a domain never seen are composed "
        "from its description (AdaGraph). Nothing of the network was trained anew; it was made "
        f"by `{metadata.provenance.command or 'unknown'}`."
    )
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
        "that a prediction\n      stands for; change_threshold of the measured fields",
        "scores": "drift of each candidate, in nats, over domains left out one at a time",
        "priors": "the same for each number of prior_frames, after one and two updates of ONDA",
        "left_out": "domains with fewer than 16 images",
        "merged": "domains that were joined because their descriptions are equal",
        "corrupt_images": "names of those left out",
    },
)
