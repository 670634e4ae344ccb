# SPDX-License-Identifier: Apache-2.0
"""Statistics that a stream can begin with, and what ONDA recognises from there.

Measured fields are those of the stream's own first frames, as the node takes them: of the first
frame at once, of up to five together afterwards.
"""

from dataclasses import dataclass, replace

import numpy as np

from newfound_core.backbones import Backbone
from newfound_core.models import LoadedModel
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.statistics import Statistics
from newfound_core.onda.watch import confidence
from newfound_core.predictive.graph import DomainGraph
from newfound_core.predictive.measured import average
from newfound_core.predictive.metadata import Metadata
from newfound_core.predictive.regression import RegressionConfig
from newfound_core.predictive.stem_fields import Measurer
from newfound_training.predictive.nodes import DomainImages

REFINED = 5  # frames whose measured fields are averaged
CHUNK = 20  # frames that are prepared together
METHODS = {
    "source": "source statistics",
    "source_prior": "source statistics, as many prior frames as a prediction has",
    "mean": "mean of all nodes",
    "kernel": "described fields, kernel of the thesis (sigma 0.1)",
    "described": "described fields, the regression that was chosen",
    "measured": "measured fields only",
    "clusters": "measured fields only, nodes are clusters of the images",
    "both": "described and measured fields",
    "refined": "the same, scale and bias refined at run time",
    "full": "the same with scale and bias per node",
    "full_refined": "scale and bias per node, refined at run time",
    "own": "statistics of other images of the target",
    "own_fixed": "statistics of other images of the target, without ONDA",
}
MEASURING = ("measured", "clusters", "both", "refined", "full", "full_refined")


@dataclass(frozen=True)
class Start:
    """One way to begin in a domain."""

    method: str
    graph: DomainGraph  # without the domain
    described: Metadata  # what is written of the domain
    own: Statistics  # of other images of the domain
    source: Statistics

    @property
    def prior_frames(self) -> float | tuple[float, ...] | None:
        """Frames that it stands for when ONDA goes on from it."""
        return None if self.method == "source" else self.graph.config.prior_frames

    def statistics(self, measured: Metadata) -> Statistics:
        """Statistics to begin with, given what the first frames look like."""
        graph = self.graph
        if self.method in ("source", "source_prior"):
            return self.source
        if self.method in ("own", "own_fixed"):
            return self.own
        if self.method == "mean":
            equal = np.full(len(graph.nodes), 1 / len(graph.nodes))
            return graph.composed(equal, RegressionConfig())
        if self.method == "kernel":
            graph = graph.with_config(replace(graph.config, described=RegressionConfig("kernel")))
        known = {} if self.method in ("measured", "clusters") else self.described
        return graph.predict({**known, **measured}).statistics


def recognise(
    loaded: LoadedModel, domain: DomainImages, order: np.ndarray, start: Start, config: OndaConfig
) -> np.ndarray:
    """The class of each frame, in this order, while ONDA follows from the start."""
    model, backbone = loaded.model, loaded.model.backbone
    assert isinstance(backbone, Backbone)
    measure = Measurer(backbone, loaded.metadata.preprocessing, start.graph.axes)
    onda = Onda(model, config)
    predicted, done = [], 0
    try:
        if start.method in MEASURING:
            seen = [measure(domain.images[i]) for i in order[:REFINED]]
            for done in range(1, len(seen) + 1):
                _begin(onda, start, average(seen[:done]), keep_frames=done > 1)
                frame = domain.frames(loaded, order[done - 1 : done])
                predicted.append(confidence(model, onda.replay(frame))[1].cpu().numpy())
        elif start.method != "source":
            _begin(onda, start, {})
            if start.method == "own_fixed":
                onda.freeze()
        for place in range(done, len(order), CHUNK):
            frames = domain.frames(loaded, order[place : place + CHUNK])
            predicted.append(confidence(model, onda.replay(frames))[1].cpu().numpy())
    finally:
        onda.unfreeze()
        onda.start_from(onda.source, "source")
        onda.close()
    return np.concatenate(predicted)


def _begin(onda: Onda, start: Start, measured: Metadata, *, keep_frames: bool = False) -> None:
    onda.start_from(
        start.statistics(measured),
        start.method,
        prior_frames=start.prior_frames,
        keep_frames=keep_frames,
    )
