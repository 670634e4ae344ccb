# SPDX-License-Identifier: Apache-2.0
"""`evaluate_predictive`: the first frames in domains never seen, from several starts.

Every domain but the source's is the target once; all others are nodes. The regression is chosen on
those nodes alone. Each start is followed by ONDA with the same options.
"""

import hashlib
import json
import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from newfound_core.errors import ConfigError
from newfound_core.models import LoadedModel, load_model
from newfound_core.onda import OndaConfig
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.predictive.choice import Measurements, choose_config, with_changes
from newfound_core.predictive.graph import DomainGraph, GraphConfig
from newfound_core.storage import read_json, write_bytes, write_json
from newfound_training.data import load_pixels, open_images
from newfound_training.predictive.affine import AffineTraining
from newfound_training.predictive.nodes import (
    DomainImages,
    PixelsOf,
    assemble,
    build_graph,
    clusters_of,
    config_values,
)
from newfound_training.predictive.options import EvaluateOptions
from newfound_training.predictive.prior import choose_prior
from newfound_training.predictive.starts import Start, recognise
from newfound_training.predictive.tables import Recognised, draw, markdown, row_of, table_of
from newfound_training.predictive.train import domains_of
from newfound_training.running.command import Command, Run, require_same_images

_log = logging.getLogger(__name__)


class Evaluation:
    """The nodes, the streams, and what was measured, kept in files."""

    def __init__(self, options: EvaluateOptions, run: Run) -> None:
        self.options, self.run = options, run
        self.loaded: LoadedModel = load_model(
            options.checkpoint, ("source", "adagraph"), run.device
        )
        schema, domains, self.corrupt = domains_of(options, self.loaded, run)
        built = build_graph(self.loaded, schema, domains, run.seed, measured_by=options.measured)
        self.schema, self.graph, self.parts = schema, built.graph, built.parts
        self.domains = built.domains
        self.names = [node.name for node in self.graph.nodes]
        if merged := built.facts["merged"]:
            raise ConfigError(
                f"{', '.join(merged)}: domains with equal descriptions cannot be targets; tell "
                "them apart, or name the others with --domains"
            )
        if options.source_domain not in self.names:
            raise ConfigError(f"source_domain must be one of {', '.join(self.names)}")
        self.targets = options.targets or tuple(
            name for name in self.names if name != options.source_domain
        )
        if unknown := sorted(set(self.targets) - set(self.names)):
            raise ConfigError(f"targets {', '.join(unknown)} are not among the domains")
        self._graphs: dict[tuple[str, str], DomainGraph] = {}
        self._streams = self._open_streams()
        self._layers = NormalizationLayers(self.loaded.model, self._which)

    @property
    def _which(self) -> str:
        return getattr(self.loaded.model, "adaptive_layers", "all")

    def _open_streams(self) -> Any:
        images = open_images(self.options.stream_data, self.options.layout)
        prepared = self.loaded.metadata.preprocessing
        pixels = load_pixels(
            images,
            prepared.size,
            strict=self.options.strict,
            resize=prepared.resize,
            limit_gb=self.options.cache_limit_gb,
        )
        if pixels.images.class_names != self.loaded.labels:
            raise ConfigError(f"{images.root} has other classes than the model")
        require_same_images(pixels.images, self.run)
        return pixels

    # Graphs without the target

    def graph_for(self, target: str, kept: list[str]) -> DomainGraph:
        """The graph of the domains kept, its regression chosen without the target."""
        graph, measured = self._of(kept)
        path = self._path(f"graphs/{target}", {"kept": kept})
        if not path.exists():
            config, _ = choose_config(graph, self._layers, measured, self.run.seed)
            chosen = with_changes(graph.with_config(config), measured)
            chosen = self._with_prior(chosen, self._domains_of(kept), measured)
            write_json(path, asdict(chosen.config))
        return graph.with_config(GraphConfig.from_values(read_json(path)))

    def _of(self, kept: list[str]) -> tuple[DomainGraph, list[Measurements]]:
        """The graph of some domains, whose stem fields know of no other."""
        return assemble(self.schema, [self.parts[self.names.index(name)] for name in kept])

    def _with_prior(
        self, graph: DomainGraph, domains: list[DomainImages], measured: list[Measurements]
    ) -> DomainGraph:
        prior, _ = choose_prior(
            self.loaded,
            graph,
            domains,
            measured,
            frames_per_update=self.options.frames_per_update,
            seed=self.run.seed,
        )
        return graph.with_config(replace(graph.config, prior_frames=prior))

    def graph_of(self, target: str, method: str) -> DomainGraph:
        """What a start is predicted with."""
        kind = method.removesuffix("_refined")
        if (target, kind) not in self._graphs:
            made = {"full": self.full, "clusters": self.clustered}.get(kind, self.without)(target)
            self._graphs[target, kind] = made
        return self._graphs[target, kind]

    def without(self, target: str) -> DomainGraph:
        """The graph of all domains but the target."""
        return self.graph_for(target, [name for name in self.names if name != target])

    def full(self, target: str) -> DomainGraph:
        """`without` with scale and bias of the nodes, trained without the target."""
        graph = self.without(target)
        how, kept = self.options.affine_options(), _names(graph)
        path = self._path(f"affine/{target}", {"kept": kept, "how": asdict(how)})
        path = path.with_suffix(".safetensors")
        training = AffineTraining(self.loaded, graph, self._domains_of(kept), how)
        made = training.run(self.run.seed, path)
        config, _ = choose_config(made, self._layers, self._of(kept)[1], self.run.seed)
        return made.with_config(replace(config, prior_frames=graph.config.prior_frames))

    def clustered(self, target: str) -> DomainGraph:
        """Nodes are clusters of the images of all domains but the target; nothing is described."""
        frames = [image for d in self.domains if d.name != target for image in d.images]
        found = clusters_of(self.loaded, frames, self.options.clusters, self.run.seed)
        built = build_graph(
            self.loaded, None, found, self.run.seed, measured_by=self.options.measured
        )
        return self._with_prior(built.graph, built.domains, built.measured)

    def _domains_of(self, names: list[str]) -> list[DomainImages]:
        return [self.domains[self.names.index(name)] for name in names]

    def some(self, target: str, count: int, seed: int) -> DomainGraph:
        """The graph of the source and some auxiliary domains."""
        source = self.options.source_domain
        others = [name for name in self.names if name not in (target, source)]
        generator = np.random.default_rng([self.run.seed, 7, seed, self.names.index(target)])
        drawn = generator.permutation(others)[:count].tolist()
        return self.graph_for(target, [n for n in self.names if n in {source, *drawn}])

    # Streams

    def streams(self, method: str) -> Recognised:
        """What was recognised from this start, by target, in each order."""
        options = self.options
        return {
            target: [
                self.stream(target, seed, method, graph, options.frames)
                for seed in range(options.seeds)
            ]
            for target in self.targets
            for graph in [self.graph_of(target, method)]
        }

    def streams_of_some(self, count: int) -> Recognised:
        """The first frames from described and measured fields, with fewer auxiliary domains."""
        return {
            target: [
                self.stream(target, seed, "both", self.some(target, count, seed), 20)
                for seed in range(self.options.seeds)
            ]
            for target in self.targets
        }

    def stream(
        self, target: str, seed: int, method: str, graph: DomainGraph, frames: int
    ) -> np.ndarray:
        """Which of the frames were recognised."""
        key = {"frames": frames, "config": asdict(graph.config), "kept": _names(graph)}
        if method.startswith("full"):
            key["affine"] = asdict(self.options.affine_options())
        path = self._path(f"streams/{target}/{method}-{seed}", key)
        if not path.exists():
            pixels = self._streams.in_domain(target)
            order = np.random.default_rng([self.run.seed, 8, seed]).permutation(len(pixels))
            order = order[:frames]
            domain = DomainImages(target, {}, PixelsOf(pixels))
            start = self._start(target, method, graph)
            predicted = recognise(self.loaded, domain, order, start, self._onda(method))
            found = predicted == pixels.images.labels[order]
            write_json(path, {"recognised": "".join("01"[int(x)] for x in found)})
            _log.info("%s, %s, seed %d: %.1f %%", target, method, seed, 100 * found.mean())
        return np.array([c == "1" for c in read_json(path)["recognised"]])

    def _onda(self, method: str) -> OndaConfig:
        return OndaConfig(
            frames_per_update=self.options.frames_per_update,
            layers=self._which,
            confidence_drop=0.0,
            alarm=False,
            refine_rate=self.options.refine_rate if method.endswith("refined") else 0.0,
        )

    def _start(self, target: str, method: str, graph: DomainGraph) -> Start:
        index = self.names.index(target)
        known = self.graph.nodes[index].metadata
        written = {f.name: known[f.name] for f in self.graph.schema.described}
        return Start(method, graph, written, self.graph.own(index), self._layers.read())

    def _path(self, name: str, key: dict[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:10]
        return self.run.out / f"{name}-{digest}.json"


def _names(graph: DomainGraph) -> list[str]:
    return [node.name for node in graph.nodes]


def run_evaluate_predictive(options: EvaluateOptions, run: Run) -> dict[str, Any]:
    """The table, the curve over auxiliary domains, and the figure."""
    evaluation = Evaluation(options, run)
    graphs = {target: evaluation.without(target) for target in evaluation.targets}
    streams = {method: evaluation.streams(method) for method in options.chosen()}
    table = table_of(streams)
    most = len(evaluation.names) - 2
    fewer = [count for count in options.auxiliary if count <= most]
    curve = {str(count): row_of(evaluation.streams_of_some(count))["first"] for count in fewer}
    curve[str(most)] = table["both"]["first"]
    draw(streams, run.out / "first_frames.png")
    write_bytes(run.out / "table.md", markdown(table).encode())
    _log.info("%s", markdown(table))
    return {
        "methods": table,
        "targets": {
            target: {m: row_of({target: found[target]})["first"] for m, found in streams.items()}
            for target in evaluation.targets
        },
        "auxiliary": curve,
        "configs": {target: config_values(graph.config) for target, graph in graphs.items()},
        "corrupt_images": evaluation.corrupt,
    }


COMMAND = Command(
    "evaluate-predictive",
    "Streams domains never seen from predicted statistics and compares with other starts.",
    EvaluateOptions,
    run_evaluate_predictive,
    {
        "methods": "for each start (source, source_prior, mean, kernel, described, measured, "
        "both, own,\n      own_fixed; if asked for clusters, refined, full, full_refined) "
        "accuracy in frames 1 to\n      20 (first), 21 to 40 (second), later: means over "
        "targets and seeds; first_error, the\n      standard error of the first over targets; "
        "first_gap_closed, second_gap_closed and\n      later_gap_closed, shares of the way from "
        "source to own_fixed (null if that is not two points)",
        "targets": "for each target the accuracy of each start in frames 1 to 20",
        "auxiliary": "accuracy of `both` in frames 1 to 20 by number of auxiliary domains",
        "configs": "for each target what was chosen without it, as train-predictive: described, "
        "measured,\n      both (regression, sigma, ridge, total_variance, measured_weight), "
        "prior_frames, change_threshold",
        "corrupt_images": "names of those left out",
    },
)
