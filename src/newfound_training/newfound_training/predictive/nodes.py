# SPDX-License-Identifier: Apache-2.0
"""From folders of images to the nodes of a graph: statistics, measured fields, descriptions."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from newfound_core.backbones import Backbone
from newfound_core.errors import ConfigError, DataError
from newfound_core.models import LoadedModel
from newfound_core.onda.statistics import NormalizationLayers, Statistics
from newfound_core.predictive.choice import Measurements, choose_config, with_changes
from newfound_core.predictive.graph import DomainGraph, GraphConfig, Node
from newfound_core.predictive.measured import NAMES, average, measure, measured_fields
from newfound_core.predictive.metadata import Field, Schema, Value
from newfound_core.predictive.stem_fields import PREFIX, StemAxes, StemMeasurer
from newfound_core.stem_clusters import cluster_images
from newfound_training.data import Pixels
from newfound_training.online.replay import re_estimate
from newfound_training.running.options import read_yaml
from newfound_training.source import to_device

_log = logging.getLogger(__name__)
FEWEST_IMAGES = 16  # of a domain
BATCH = 48  # images whose statistics are estimated together


@dataclass(frozen=True)
class DomainImages:
    """The images of one domain, at the network's size."""

    name: str
    metadata: dict[str, Value]
    images: Sequence[np.ndarray]
    labels: np.ndarray | None = None  # of the source, where scale and bias are trained

    def frames(self, loaded: LoadedModel, indices: np.ndarray) -> Tensor:
        """Prepared images."""
        chosen = [self.images[i] for i in indices]
        return to_device(loaded.metadata.preprocessing.batch(chosen), loaded.device)


class PixelsOf(Sequence[np.ndarray]):
    """The images of a `Pixels` as a sequence, decoded when they are needed."""

    def __init__(self, pixels: Pixels) -> None:
        self._pixels = pixels

    def __len__(self) -> int:
        return len(self._pixels)

    def __getitem__(self, index: Any) -> Any:
        return self._pixels[index]


class Joined(Sequence[np.ndarray]):
    """The images of several domains one after the other."""

    def __init__(self, parts: Sequence[Sequence[np.ndarray]]) -> None:
        self._parts, self._ends = parts, np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: Any) -> Any:
        number = int(np.searchsorted(self._ends, index, side="right"))
        part = self._parts[number]  # an IndexError behind the last
        return part[int(index - self._ends[number]) + len(part)]


# Descriptions

Described = dict[str, dict[str, Value]]  # values by field, by domain


def metadata_of_names(names: Sequence[str], conditions: Sequence[str]) -> tuple[Schema, Described]:
    """What the parts of domains' names mean, as artificial_kinect_white."""
    found: Described = {}
    for name in names:
        parts = name.split("_")
        if len(parts) != len(conditions):
            raise ConfigError(
                f"the domain {name!r} has {len(parts)} parts between underscores, but conditions "
                f"names {len(conditions)}: {', '.join(conditions)}"
            )
        found[name] = dict(zip(conditions, parts, strict=True))
    return Schema(tuple(Field(name) for name in conditions)), found


def read_metadata(path: Path) -> tuple[Schema, Described]:
    """A file with `fields` (name: kind, or its properties) and `domains` (name: values)."""
    content = read_yaml(path)
    if set(content) != {"fields", "domains"} or not all(
        isinstance(part, Mapping) and part for part in content.values()
    ):
        raise ConfigError(
            f"{path} must have two tables, fields (name: kind) and domains (name: values), got "
            f"{', '.join(map(str, content)) or 'nothing'}"
        )
    listed = [
        {"name": str(name)} | (dict(given) if isinstance(given, Mapping) else {"kind": given})
        for name, given in content["fields"].items()
    ]
    schema = Schema.from_values(listed)
    if taken := sorted(n for n in schema.names if n in NAMES or n.startswith(PREFIX)):
        raise ConfigError(f"{path}: {', '.join(taken)} is measured on images; choose another name")
    return schema, {
        str(name): _description(schema, values, f"{path}, domain {name}")
        for name, values in content["domains"].items()
    }


def _description(schema: Schema, values: Any, where: str) -> dict[str, Value]:
    """What is written of a domain, which must have a value of every field."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: expected values by field, got {values!r}")
    found = {str(key): _plain(value) for key, value in values.items() if value is not None}
    try:
        schema.check(found)
    except DataError as error:
        raise ConfigError(f"{where}: {error}") from error
    if missing := [name for name in schema.names if name not in found]:
        raise ConfigError(f"{where}: has no value of {', '.join(missing)}")
    if listed := [name for name, value in found.items() if isinstance(value, list | dict)]:
        raise ConfigError(f"{where}: {', '.join(listed)} must be one value")
    return found


def _plain(value: Any) -> Any:
    """A value that JSON has: YAML makes dates of some texts."""
    return value if isinstance(value, str | int | float | list | dict) else str(value)


# Statistics


def statistics_of(loaded: LoadedModel, domain: DomainImages, seed: int) -> Statistics:
    """Those of the whole domain, in the layers that adapt; the others keep the source's."""
    order = np.random.default_rng([seed, 31]).permutation(len(domain.images))
    layers = getattr(loaded.model, "adaptive_layers", "all")
    return re_estimate(
        loaded.model, lambda indices: domain.frames(loaded, indices), order, BATCH, layers
    )


@dataclass(frozen=True)
class MeasuredDomain:
    """A domain, its statistics, and what was measured on each image."""

    domain: DomainImages
    statistics: Statistics
    stem: Tensor | None  # [N, 2 C] of each image, for stem fields
    numbers: Measurements  # of each image, otherwise


def measure_domain(
    loaded: LoadedModel, domain: DomainImages, measured: str, seed: int
) -> MeasuredDomain:
    """Estimate a domain's statistics, and measure its images."""
    statistics = statistics_of(loaded, domain, seed)
    _log.info("%s: %d images", domain.name, len(domain.images))
    if measured == "image":
        return MeasuredDomain(
            domain, statistics, None, [measure(image) for image in domain.images]
        )
    backbone = loaded.model.backbone
    assert isinstance(backbone, Backbone)
    measurer = StemMeasurer(backbone, loaded.metadata.preprocessing)
    indices = np.array_split(np.arange(len(domain.images)), -(-len(domain.images) // BATCH))
    stem = [measurer.statistics([domain.images[i] for i in part]) for part in indices]
    return MeasuredDomain(domain, statistics, torch.cat(stem), [])


def assemble(
    schema: Schema | None, parts: Sequence[MeasuredDomain]
) -> tuple[DomainGraph, list[Measurements]]:
    """The graph of these domains alone, and the measured fields of each one's images."""
    described = () if schema is None else schema.fields
    stems = [of.stem for of in parts if of.stem is not None]
    axes = StemAxes.fitted(stems) if stems else None
    nodes, measured = [], []
    for of in parts:
        written, images = of.domain.metadata, of.numbers
        if axes is not None and of.stem is not None:
            images = axes.project(of.stem)
        camera = {f.name: f.number(written[f.name]) for f in described if f.measured}
        measured.append([image | camera for image in images])
        metadata = {**written, **average(measured[-1])}
        nodes.append(Node(of.domain.name, metadata, len(of.domain.images)))
    whole = Schema((*described, *(measured_fields() if axes is None else axes.fields())))
    whole = whole.fitted([node.metadata for node in nodes])
    mean, variance = (
        torch.stack([getattr(of.statistics, name) for of in parts])
        for name in ("mean", "variance")
    )
    return DomainGraph(whole, nodes, mean, variance, axes=axes), measured


class Built(NamedTuple):
    """A graph, what its nodes were made of, and what was found on the way."""

    graph: DomainGraph
    parts: list[MeasuredDomain]  # of each node
    measured: list[Measurements]  # of each node's images
    facts: dict[str, Any]

    @property
    def domains(self) -> list[DomainImages]:
        """Those of each node."""
        return [of.domain for of in self.parts]


def build_graph(
    loaded: LoadedModel,
    schema: Schema | None,
    domains: Sequence[DomainImages],
    seed: int,
    *,
    measured_by: str = "stem",
    train: Callable[[DomainGraph, list[DomainImages]], DomainGraph] = lambda graph, _: graph,
) -> Built:
    """The graph of the domains, its regression chosen by leaving one out at a time.

    `train` may give the nodes a scale and a bias before that.
    """
    kept, facts = usable_domains(schema, domains)
    parts = [measure_domain(loaded, domain, measured_by, seed) for domain in kept]
    graph, measured = assemble(schema, parts)
    graph = train(graph, kept)
    layers = NormalizationLayers(loaded.model, getattr(loaded.model, "adaptive_layers", "all"))
    config, scores = choose_config(graph, layers, measured, seed)
    graph = with_changes(graph.with_config(config), measured)
    return Built(graph, parts, measured, {**facts, "scores": scores})


def usable_domains(
    schema: Schema | None, domains: Sequence[DomainImages]
) -> tuple[list[DomainImages], dict[str, Any]]:
    """Domains that can be nodes: equal ones joined, those of few images left out."""
    joined = join_equal(schema, domains)
    left_out = [d.name for d in joined if len(d.images) < FEWEST_IMAGES]
    for name in left_out:
        _log.warning("%s has fewer than %d images and is left out", name, FEWEST_IMAGES)
    kept = [d for d in joined if d.name not in left_out]
    names = {d.name for d in domains}
    merged = [d.name for d in kept if d.name not in names]
    if len(kept) < 2:
        raise ConfigError(
            f"of {len(domains)} domains {len(kept)} can be a node of the graph, but two are "
            f"needed: fewer than {FEWEST_IMAGES} images have {', '.join(left_out) or 'none'}, "
            f"joined because their descriptions are equal are {', '.join(merged) or 'none'}. "
            "The source alone is train-source"
        )
    return kept, {"left_out": left_out, "merged": merged}


def join_equal(schema: Schema | None, domains: Sequence[DomainImages]) -> list[DomainImages]:
    """Join domains with equal descriptions: a description must mean one set of statistics."""
    written = () if schema is None else schema.described
    if not written:
        return list(domains)
    fitted = Schema(written).fitted([domain.metadata for domain in domains])
    groups: dict[tuple[float, ...], list[DomainImages]] = {}
    for domain in domains:
        encoded = fitted.encode({name: domain.metadata[name] for name in fitted.names})
        groups.setdefault(tuple(encoded.columns.round(9).tolist()), []).append(domain)
    reported = () if schema is None else schema.measured
    return [_joined(group, reported) for group in groups.values()]


def _joined(group: Sequence[DomainImages], reported: Sequence[Field]) -> DomainImages:
    """One domain of several; what the camera reported is its mean over images."""
    if len(group) == 1:
        return group[0]
    counts = [len(domain.images) for domain in group]
    metadata = dict(group[0].metadata)
    for field in reported:
        values = [field.number(domain.metadata[field.name]) for domain in group]
        metadata[field.name] = float(np.average(values, weights=counts))
    labels = [domain.labels for domain in group if domain.labels is not None]
    return DomainImages(
        "+".join(domain.name for domain in group),
        metadata,
        Joined([domain.images for domain in group]),
        np.concatenate(labels) if len(labels) == len(group) else None,
    )


# Footage


def clusters_of(
    loaded: LoadedModel, frames: Sequence[np.ndarray], count: int, seed: int
) -> list[DomainImages]:
    """Unlabelled frames sorted into domains by their stem statistics."""
    if len(frames) < count * FEWEST_IMAGES:
        raise DataError(
            f"the footage has {len(frames)} frames that can be read, but {count} domains need at "
            f"least {count * FEWEST_IMAGES}: give more footage or fewer clusters"
        )
    backbone = loaded.model.backbone
    assert isinstance(backbone, Backbone)
    whole = DomainImages("footage", {}, frames)
    parts = np.array_split(np.arange(len(frames)), -(-len(frames) // BATCH))
    batches = (whole.frames(loaded, part) for part in parts)
    found = cluster_images(backbone, batches, count, seed).assignment.numpy()
    return [
        DomainImages(f"cluster_{k}", {}, [frames[i] for i in np.flatnonzero(found == k)])
        for k in range(count)
    ]


def config_values(config: GraphConfig) -> dict[str, Any]:
    """For result.json."""
    return {
        "described": vars(config.described),
        "measured": vars(config.measured),
        "both": vars(config.both),
        "prior_frames": config.prior_frames,
        "change_threshold": config.change_threshold,
    }
