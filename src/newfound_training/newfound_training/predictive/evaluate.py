# SPDX-License-Identifier: Apache-2.0
"""`evaluate_predictive`: the first frames in domains never seen, from several starts.

Every domain but the source's is the target once; all others are nodes. The regression is chosen on
those nodes alone. Each start is followed by ONDA with the same options. Measured fields are those
of the stream's own first frames, as the node takes them: of the first frame at once, of up to
five together afterwards.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from newfound_core.errors import ConfigError
from newfound_core.models import LoadedModel, load_model
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.statistics import NormalizationLayers, Statistics
from newfound_core.onda.watch import confidence
from newfound_core.predictive.choice import choose_config
from newfound_core.predictive.graph import DomainGraph, GraphConfig
from newfound_core.predictive.measured import average, measure
from newfound_core.predictive.regression import RegressionConfig
from newfound_core.storage import read_json, write_bytes, write_json
from newfound_training.data import load_pixels, open_images
from newfound_training.predictive.nodes import (
    DomainImages,
    PixelsOf,
    build_graph,
    choose_prior,
    config_values,
)
from newfound_training.predictive.train import PredictiveOptions, domains_of
from newfound_training.running.command import Command, Run, require_same_images
from newfound_training.running.figures import pyplot, save_figure
from newfound_training.running.options import option

_log = logging.getLogger(__name__)
REFINED = 5  # frames whose measured fields are averaged
WINDOWS = {"first": (0, 20), "second": (20, 40), "later": (40, None)}
METHODS = {
    "source": "source statistics",
    "source_prior": "source statistics, as many prior frames as a prediction has",
    "mean": "mean of all nodes",
    "kernel": "described fields, kernel of the thesis (sigma 0.1)",
    "additive": "described fields, the regression that was chosen",
    "measured": "measured fields only",
    "both": "described and measured fields",
    "own": "statistics of other images of the target",
    "own_fixed": "statistics of other images of the target, without ONDA",
}


@dataclass(frozen=True)
class EvaluateOptions(PredictiveOptions):
    """Nodes from --data, streams from --stream-data."""

    stream_data: str = option("", "folder with the targets' labelled images", required=True)
    source_domain: str = option("", "domain that the model was trained on", required=True)
    targets: tuple[str, ...] = option((), "domains to stream; all but the source's if none")
    seeds: int = option(3, "orders of every stream, which also choose its frames")
    frames: int = option(80, "images of a stream")
    auxiliary: tuple[int, ...] = option(
        (2, 4, 6, 8), "numbers of auxiliary domains, drawn at random, for the curve"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.footage:
            raise ConfigError("targets must be known: evaluate-predictive takes --data")
        if min(self.seeds, self.frames, *self.auxiliary, 1) < 1:
            raise ConfigError("seeds, frames and auxiliary must be at least 1")


class Evaluation:
    """The nodes, the streams, and what was measured, kept in files."""

    def __init__(self, options: EvaluateOptions, run: Run) -> None:
        self.options, self.run = options, run
        self.loaded: LoadedModel = load_model(
            options.checkpoint, ("source", "adagraph"), run.device
        )
        schema, self.domains, self.corrupt = domains_of(options, self.loaded, run)
        self.graph, self.measured, _ = build_graph(self.loaded, schema, self.domains, run.seed)
        self.names = [node.name for node in self.graph.nodes]
        if options.source_domain not in self.names:
            raise ConfigError(f"source_domain must be one of {', '.join(self.names)}")
        if any("+" in name for name in self.names):
            raise ConfigError("two domains have equal descriptions: they cannot be targets")
        self.targets = options.targets or tuple(
            name for name in self.names if name != options.source_domain
        )
        if unknown := sorted(set(self.targets) - set(self.names)):
            raise ConfigError(f"targets {', '.join(unknown)} are not among the domains")
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
        indices = [self.names.index(name) for name in kept]
        graph, measured = self.graph.of(indices), [self.measured[i] for i in indices]
        path = self._path(f"graphs/{target}", {"kept": kept})
        if not path.exists():
            config, _ = choose_config(graph, self._layers, measured, self.run.seed)
            graph = graph.with_config(config)
            prior, _ = choose_prior(
                self.loaded,
                graph,
                self.domains,
                measured,
                frames_per_update=self.options.frames_per_update,
                seed=self.run.seed,
            )
            write_json(path, asdict(replace(config, prior_frames=prior)))
        return graph.with_config(GraphConfig.from_values(read_json(path)))

    def without(self, target: str) -> DomainGraph:
        """The graph of all domains but the target."""
        return self.graph_for(target, [name for name in self.names if name != target])

    def some(self, target: str, count: int, seed: int) -> DomainGraph:
        """The graph of the source and some auxiliary domains."""
        source = self.options.source_domain
        others = [name for name in self.names if name not in (target, source)]
        generator = np.random.default_rng([self.run.seed, 7, seed, self.names.index(target)])
        drawn = generator.permutation(others)[:count].tolist()
        return self.graph_for(target, [n for n in self.names if n in {source, *drawn}])

    # Streams

    def stream(
        self, target: str, seed: int, method: str, graph: DomainGraph, frames: int
    ) -> np.ndarray:
        """Which of the frames were recognised."""
        key = {"frames": frames, "config": asdict(graph.config), "kept": _names(graph)}
        path = self._path(f"streams/{target}/{method}-{seed}", key)
        if not path.exists():
            pixels = self._streams.in_domain(target)
            order = np.random.default_rng([self.run.seed, 8, seed]).permutation(len(pixels))
            order = order[:frames]
            domain = DomainImages(target, {}, PixelsOf(pixels))
            predicted = self._predicted(domain, order, target, method, graph)
            found = predicted == pixels.images.labels[order]
            write_json(path, {"recognised": "".join("01"[int(x)] for x in found)})
            _log.info("%s, %s, seed %d: %.1f %%", target, method, seed, 100 * found.mean())
        return np.array([c == "1" for c in read_json(path)["recognised"]])

    def _predicted(
        self, domain: DomainImages, order: np.ndarray, target: str, method: str, graph: DomainGraph
    ) -> np.ndarray:
        config = OndaConfig(
            frames_per_update=self.options.frames_per_update,
            layers=self._which,
            confidence_drop=0.0,
            alarm=False,
        )
        model = self.loaded.model
        onda = Onda(model, config)
        start = self._start(target, method, graph)
        prior = None if method == "source" else graph.config.prior_frames
        predicted, done = [], 0
        try:
            if method in ("measured", "both"):
                seen = [measure(domain.images[i]) for i in order[:REFINED]]
                for done in range(1, len(seen) + 1):
                    found = start(average(seen[:done]))
                    onda.start_from(found, method, prior_frames=prior, keep_frames=done > 1)
                    frame = domain.frames(self.loaded, order[done - 1 : done])
                    predicted.append(confidence(model, onda.replay(frame))[1].cpu().numpy())
            elif method != "source":
                onda.start_from(start({}), method, prior_frames=prior)
                if method == "own_fixed":
                    onda.freeze()
            for place in range(done, len(order), 20):
                frames = domain.frames(self.loaded, order[place : place + 20])
                predicted.append(confidence(model, onda.replay(frames))[1].cpu().numpy())
        finally:
            onda.unfreeze()
            onda.start_from(onda.source, "source")
            onda.close()
        return np.concatenate(predicted)

    def _start(
        self, target: str, method: str, graph: DomainGraph
    ) -> Callable[[dict[str, float]], Statistics]:
        """Statistics to begin with, given measured fields."""
        index = self.names.index(target)
        known = self.graph.nodes[index].metadata
        written = {f.name: known[f.name] for f in graph.schema.described}
        if method == "source_prior":
            source = NormalizationLayers(self.loaded.model).read()
            return lambda _: source
        if method in ("own", "own_fixed"):
            own = Statistics(self.graph.mean[index], self.graph.variance[index])
            return lambda _: own
        if method == "mean":
            equal = np.full(len(graph.nodes), 1 / len(graph.nodes))
            mean = graph.composed(equal, RegressionConfig())
            return lambda _: mean
        if method == "kernel":
            graph = graph.with_config(replace(graph.config, described=RegressionConfig("kernel")))
        if method in ("kernel", "additive"):
            return lambda _: graph.predict(written).statistics
        if method == "measured":
            return lambda measured: graph.predict(measured).statistics
        return lambda measured: graph.predict(written | measured).statistics

    def _path(self, name: str, key: dict[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:10]
        return self.run.out / f"{name}-{digest}.json"


def _names(graph: DomainGraph) -> list[str]:
    return [node.name for node in graph.nodes]


def run_evaluate_predictive(options: EvaluateOptions, run: Run) -> dict[str, Any]:
    """The table, the curve over auxiliary domains, and the figure."""
    evaluation = Evaluation(options, run)
    graphs = {target: evaluation.without(target) for target in evaluation.targets}
    seeds = range(options.seeds)
    streams = {
        method: {
            target: [
                evaluation.stream(target, seed, method, graphs[target], options.frames)
                for seed in seeds
            ]
            for target in evaluation.targets
        }
        for method in METHODS
    }
    table = {method: _row(found) for method, found in streams.items()}
    for window in WINDOWS:
        for row in table.values():
            row[f"{window}_gap_closed"] = _gap_closed(
                table["source"][window], row[window], table["own_fixed"][window]
            )
    curve = {}
    for count in options.auxiliary:
        if count > len(evaluation.names) - 2:
            continue
        found = {
            target: [
                evaluation.stream(target, s, "both", evaluation.some(target, count, s), 20)
                for s in seeds
            ]
            for target in evaluation.targets
        }
        curve[str(count)] = _row(found)["first"]
    curve[str(len(evaluation.names) - 2)] = table["both"]["first"]
    _draw(streams, run.out / "first_frames.png")
    write_bytes(run.out / "table.md", _markdown(table).encode())
    _log.info("%s", _markdown(table))
    return {
        "methods": table,
        "targets": {
            target: {m: _row({target: streams[m][target]})["first"] for m in METHODS}
            for target in evaluation.targets
        },
        "auxiliary": curve,
        "configs": {target: config_values(graph.config) for target, graph in graphs.items()},
        "corrupt_images": evaluation.corrupt,
    }


def _row(found: dict[str, list[np.ndarray]]) -> dict[str, float | None]:
    """Means over targets and seeds, and the standard error over targets of the first frames."""
    row: dict[str, float | None] = {}
    for window, (start, end) in WINDOWS.items():
        means = [np.mean([s[start:end].mean() for s in of]) for of in found.values()
                 if len(of[0]) > start]  # fmt: skip
        row[window] = float(np.mean(means)) if means else None
    first = [np.mean([s[:20].mean() for s in of]) for of in found.values()]
    row["first_error"] = float(np.std(first) / np.sqrt(max(1, len(first) - 1)))
    return row


def _gap_closed(low: float | None, value: float | None, high: float | None) -> float | None:
    """The share of the way from low to high, if that is two points at least."""
    if low is None or value is None or high is None or high - low < 0.02:
        return None
    return (value - low) / (high - low)


def _markdown(table: dict[str, dict[str, float | None]]) -> str:
    def shown(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.1f}"

    lines = ["| start, then ONDA | 1 to 20 | 21 to 40 | later | gap closed in 1 to 20 |", "|" +
             "---|" * 5]  # fmt: skip
    for method, row in table.items():
        cells = [row["first"], row["second"], row["later"], row["first_gap_closed"]]
        lines.append(f"| {METHODS[method]} | {' | '.join(map(shown, cells))} |")
    return "\n".join(lines) + "\n"


def _draw(streams: dict[str, dict[str, list[np.ndarray]]], path: Path) -> None:
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for method in ("source", "source_prior", "mean", "kernel", "measured", "both", "own_fixed"):
        each = np.concatenate([np.stack(of) for of in streams[method].values()]).mean(0)
        width = min(10, len(each))
        smooth = np.convolve(each, np.ones(width) / width, mode="valid")
        frames = np.arange(len(smooth)) + (width + 1) / 2
        axes.plot(frames, 100 * smooth, label=METHODS[method])
    axes.set_xlabel("frame (mean over ten)")
    axes.set_ylabel("recognised, %")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    save_figure(figure, path)


COMMAND = Command(
    "evaluate-predictive",
    "Streams domains never seen from predicted statistics and compares with other starts.",
    EvaluateOptions,
    run_evaluate_predictive,
    {
        "methods": "for each start (source, source_prior, mean, kernel, additive, measured, both, "
        "own,\n      own_fixed) accuracy in frames 1 to 20 (first), 21 to 40 (second), later: "
        "means over targets\n      and seeds; first_error, the standard error of the first over "
        "targets; first_gap_closed,\n      second_gap_closed and later_gap_closed, shares of the "
        "way from source to own_fixed (null if\n      that is not two points)",
        "targets": "for each target the accuracy of each start in frames 1 to 20",
        "auxiliary": "accuracy of `both` in frames 1 to 20 by number of auxiliary domains",
        "configs": "for each target what was chosen without it, as train-predictive: described, "
        "measured,\n      both (regression, sigma, ridge, total_variance, measured_weight), "
        "prior_frames, change_threshold",
        "corrupt_images": "names of those left out",
    },
)
