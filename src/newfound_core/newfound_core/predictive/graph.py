# SPDX-License-Identifier: Apache-2.0
"""A graph of domains: statistics for a domain never seen, composed from its description.

AdaGraph (M. Mancini et al., CVPR 2019, arXiv:1903.07062). A node v is a known domain and holds the
statistics of every normalisation layer; a new domain T takes weighted means of them,

    theta_T = sum_v w_v(T) theta_v,       sum_v w_v = 1,

with the weights of regression.py. `kernel` averages variances as they are, as the thesis does;
the others, whose weights may be negative, average their logarithms. Where nodes have a scale and
a bias of their own ("Full" in the thesis), these are averaged in the same way; a node's own are

    nu_v^G = sum_k e_vk nu_k        with the edges e of `regression.edge_weights`.

Far from all domains a regression knows nothing. Where the nearest one is farther than any known
domain is from its own neighbour, the weights blend into equal ones, and the prediction says so.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError, DataError
from newfound_core.onda.statistics import Statistics
from newfound_core.predictive.metadata import Encoded, Metadata, Schema, Value
from newfound_core.predictive.regression import RegressionConfig, edge_weights, weights
from newfound_core.predictive.stem_fields import StemAxes

SMALLEST_VARIANCE = 1e-8  # before the logarithm
# What is known of a domain: fields that somebody wrote down, that were measured, or both.
Known = Literal["described", "measured", "both"]


@dataclass(frozen=True)
class Node:
    """A known domain."""

    name: str
    metadata: dict[str, Value]
    images: int  # that its statistics are from


@dataclass(frozen=True)
class GraphConfig:
    """How a graph predicts, for each kind of knowledge."""

    described: RegressionConfig = field(default_factory=RegressionConfig)
    measured: RegressionConfig = field(default_factory=RegressionConfig)
    both: RegressionConfig = field(default_factory=RegressionConfig)
    # Frames that a prediction stands for when ONDA goes on from it: of all layers, or of each.
    prior_frames: float | tuple[float, ...] | None = None
    # A change of measured fields that hardly two images of one domain show, and the matrix
    # [measured, measured] that makes such changes comparable: see choice.change.
    change_threshold: float = 3.0
    whitening: tuple[tuple[float, ...], ...] = ()
    # Along which edges nodes share scale and bias: "graph", the thesis's "Full", or "none", its
    # "SB". Nothing where they have none of their own.
    node_edges: Literal["graph", "none"] = "graph"

    def with_regression(self, known: Known, regression: RegressionConfig) -> "GraphConfig":
        """The same with another regression for one kind of knowledge."""
        changed: dict[str, Any] = {known: regression}
        return replace(self, **changed)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "GraphConfig":
        """Read what `asdict` wrote."""
        kinds = ("described", "measured", "both")
        matrix = tuple(map(tuple, values["whitening"]))
        regressions = {name: RegressionConfig(**values[name]) for name in kinds}
        prior = values["prior_frames"]
        prior = tuple(prior) if isinstance(prior, list | tuple) else prior
        return cls(**dict(values) | {"whitening": matrix, "prior_frames": prior} | regressions)


@dataclass(frozen=True)
class Prediction:
    """Statistics for a domain, and what they are composed of."""

    statistics: Statistics
    shares: dict[str, float]  # of known domains, 0 to 1, in falling order; they sum to 1
    distance: float  # to the nearest known domain, in units of the schema
    extrapolates: bool  # too far, or a category that no domain has
    notes: tuple[str, ...]  # what was not used and why, for a person
    weights: np.ndarray  # [nodes] sum to 1; negative ones are possible


class DomainGraph:
    """Known domains with their statistics."""

    def __init__(
        self,
        schema: Schema,
        nodes: Sequence[Node],
        mean: Tensor,
        variance: Tensor,
        config: GraphConfig | None = None,
        *,
        scale: Tensor | None = None,
        bias: Tensor | None = None,
        axes: StemAxes | None = None,
    ) -> None:
        """`mean` and `variance` are [nodes, rows], as are `scale` and `bias` if there are any.

        `axes` are those of stem fields, if the schema has them.
        """
        if len(nodes) < 2:
            raise ConfigError(
                f"a graph needs at least two domains, got {len(nodes)}: with the source alone "
                "this is train-source"
            )
        shapes = [list(t.shape) for t in (mean, variance, scale, bias) if t is not None]
        if len({tuple(s) for s in shapes}) > 1 or len(mean) != len(nodes):
            raise DataError(f"{len(nodes)} domains have statistics of shapes {shapes}")
        if axes is not None and not set(axes.names) <= set(schema.names):
            raise DataError(f"the schema lacks some of the fields {', '.join(axes.names)}")
        self.schema, self.nodes = schema, tuple(nodes)
        self.mean, self.variance = mean, variance
        self.scale, self.bias, self.axes = scale, bias, axes
        self.config = config or GraphConfig()
        self._encoded = np.stack([schema.encode(node.metadata).columns for node in nodes])
        if not np.isfinite(self._encoded).all():
            raise DataError("every domain of a graph needs a value for each field of its schema")
        self._is_measured = schema.columns(measured=True)

    # Prediction

    def predict(self, metadata: Metadata) -> Prediction:
        """Statistics for a domain of this description, which may be incomplete."""
        encoded = self.schema.encode(metadata)
        if (same := self._same(encoded)) is not None:
            found = np.eye(len(self.nodes))[same]
            composed = self._composed(found, 0.0, False, (), RegressionConfig())
            return replace(composed, statistics=self.own(same))
        kind = self.known(encoded)
        settings = getattr(self.config, kind)
        one, others = self._compared(encoded, kind)
        near = _nearest(one, others)
        radius = self._radius(np.isfinite(one), others)
        far = near > radius * (1 + 1e-9)
        share = min(1.0, (near - radius) / radius) if far and radius > 0 else float(far)
        found = (1 - share) * weights(one, others, settings) + share / len(self.nodes)
        notes = self._notes(encoded, metadata, far, near, radius)
        # A category that no domain has is equally far from all of them: it adds to the distance,
        # and says nothing about which of them is near.
        unseen = self._unseen(metadata)
        distance = math.hypot(near, unseen)
        return self._composed(found, distance, far or unseen > 0, notes, settings)

    def known(self, encoded: Encoded) -> Known:
        """Which kind of knowledge a description is."""
        described = bool((encoded.known & ~self._is_measured).any())
        measured = bool((encoded.known & self._is_measured).any())
        if described and measured and self.config.both.measured_weight > 0:
            return "both"
        return "described" if described or not measured else "measured"

    def uses_measured(self, metadata: Metadata) -> bool:
        """Whether measured fields would change the prediction for this description."""
        given = {f.name: metadata[f.name] for f in self.schema.described if f.name in metadata}
        encoded = self.schema.encode(given)
        if not self.schema.measured or self._same(encoded) is not None:
            return False
        return not encoded.known.any() or self.config.both.measured_weight > 0

    def _same(self, encoded: Encoded) -> int | None:
        """The node with exactly this description, if fields are described at all."""
        described = ~self._is_measured
        if not described.any():
            return None
        nodes = self._encoded[:, described]
        same = np.isclose(nodes, encoded.columns[described], atol=1e-12).all(1)
        return int(same.argmax()) if same.any() else None

    def _compared(self, encoded: Encoded, kind: Known) -> tuple[np.ndarray, np.ndarray]:
        """The description and the nodes in the columns that count; NaN in the others."""
        scale = np.ones(len(encoded.columns))
        if kind == "both":
            scale[self._is_measured] = self.config.both.measured_weight
        one = encoded.columns * scale
        one[self._is_measured if kind == "described" else []] = np.nan
        return one, self._encoded * scale

    def _unseen(self, metadata: Metadata) -> float:
        """The distance to every domain in categories that none of them has."""
        unseen = [
            field.weight
            for field in self.schema.fields
            if field.name in metadata and field.encode(metadata[field.name]) is None
        ]
        return math.hypot(*unseen)

    def _radius(self, known: np.ndarray, others: np.ndarray) -> float:
        """The largest distance of a node from its neighbour."""
        apart = others[:, known][:, None] - others[:, known][None]
        distances = np.sqrt((apart**2).sum(2))
        # Nodes that are alike in what is known are one place.
        distances[distances < 1e-9] = np.inf
        nearest = distances.min(1)
        return float(nearest[np.isfinite(nearest)].max(initial=0.0))

    def _notes(
        self, encoded: Encoded, metadata: Metadata, far: bool, distance: float, radius: float
    ) -> tuple[str, ...]:
        written = {f.name for f in self.schema.described} | metadata.keys()
        notes = [note for name, note in encoded.unknown.items() if name in written]
        if far:
            notes.append(
                f"the nearest domain is {distance:.2f} away, but known domains are at most "
                f"{radius:.2f} from their neighbours: blended with the mean of all"
            )
        return tuple(notes)

    def _composed(
        self,
        found: np.ndarray,
        distance: float,
        extrapolates: bool,
        notes: tuple[str, ...],
        settings: RegressionConfig,
    ) -> Prediction:
        total = np.abs(found).sum()
        order = np.argsort(-np.abs(found), kind="stable")
        shares = {self.nodes[i].name: float(abs(found[i]) / total) for i in order}
        statistics = self.composed(found, settings)
        return Prediction(statistics, shares, distance, extrapolates, notes, found)

    def composed(self, found: np.ndarray, settings: RegressionConfig) -> Statistics:
        """Weighted means of the nodes' statistics."""
        weight = torch.from_numpy(found).to(self.mean)
        affine = self._affine(weight)
        mean = weight @ self.mean
        if settings.regression != "kernel":
            logarithm = weight @ self.variance.clamp_min(SMALLEST_VARIANCE).log()
            return Statistics(mean, logarithm.exp(), *affine)
        variance = weight @ self.variance
        if settings.total_variance:
            variance = variance + weight @ (self.mean - mean).square()
        return Statistics(mean, variance.clamp_min(0), *affine)

    def own(self, index: int) -> Statistics:
        """The statistics of a node itself, its scale and bias mixed along the graph's edges."""
        weight = torch.from_numpy(self.edges()[index]).to(self.mean)
        return Statistics(self.mean[index], self.variance[index], *self._affine(weight))

    def _affine(self, weight: Tensor) -> tuple[Tensor, ...]:
        if self.scale is None or self.bias is None:
            return ()
        return weight @ self.scale, weight @ self.bias

    def edges(self) -> np.ndarray:
        """[nodes, nodes]: how scale and bias are shared in training, by what is described."""
        if self.config.node_edges == "none":
            return np.eye(len(self.nodes))
        described = ~self._is_measured
        columns = self._encoded[:, described] if described.any() else self._encoded
        return edge_weights(columns)

    # Other graphs

    def without(self, index: int) -> "DomainGraph":
        """The graph as if one domain had never been seen: its schema is fitted to the others."""
        return self.of([i for i in range(len(self.nodes)) if i != index])

    def of(self, indices: Sequence[int]) -> "DomainGraph":
        """The graph of some of the domains."""
        nodes = [self.nodes[i] for i in indices]
        schema = self.schema.fitted([node.metadata for node in nodes])
        rows = torch.as_tensor(indices)
        kept = {name: t[rows] for name, t in self.tensors().items()}
        return DomainGraph(schema, nodes, config=self.config, axes=self.axes, **kept)

    def with_config(self, config: GraphConfig) -> "DomainGraph":
        """The same domains with another regression."""
        other = copy.copy(self)
        other.config = config
        return other

    def with_tensors(self, **tensors: Tensor) -> "DomainGraph":
        """The same domains with other statistics, or with a scale and a bias."""
        tensors = self.tensors() | tensors
        return DomainGraph(self.schema, self.nodes, config=self.config, axes=self.axes, **tensors)

    def tensors(self) -> dict[str, Tensor]:
        """Mean, variance and, if there are any, scale and bias, [nodes, rows] each."""
        found = {name: getattr(self, name) for name in ("mean", "variance", "scale", "bias")}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def to_values(self) -> dict[str, Any]:
        """All but the statistics, as plain values for JSON."""
        return {
            "schema": self.schema.to_values(),
            "nodes": [asdict(node) for node in self.nodes],
            "config": asdict(self.config),
            "affine": self.scale is not None,
            "stem_fields": 0 if self.axes is None else len(self.axes.names),
        }


def _nearest(one: np.ndarray, others: np.ndarray) -> float:
    apart = np.where(np.isfinite(one), others - np.nan_to_num(one), 0.0)
    return math.sqrt(float((apart**2).sum(1).min()))
