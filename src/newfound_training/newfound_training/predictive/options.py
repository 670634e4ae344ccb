# SPDX-License-Identifier: Apache-2.0
"""Options of `train-predictive` and `evaluate-predictive`."""

from dataclasses import dataclass
from typing import Literal

from newfound_core.errors import ConfigError
from newfound_training.predictive.affine import AffineOptions
from newfound_training.predictive.starts import METHODS
from newfound_training.running.options import RunOptions, option


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
    measured: str = option(
        "stem", "fields that are measured: `stem`, statistics behind it, or `image`, nine numbers"
    )
    frames_per_update: int = option(10, "of ONDA, which goes on from a prediction")
    affine: str = option(
        "source", "scale and bias: of the source, of each node, or shared along the graph"
    )
    source_domain: str = option("", "whose labels train scale and bias; not for `source`")
    affine_epochs: float = option(1.0, "passes over all images for that")
    affine_lr: float = option(0.001, "learning rate for that")
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
        if self.measured not in ("stem", "image"):
            raise ConfigError(f"measured must be stem or image, got {self.measured!r}")
        if self.affine not in ("source", "node", "graph"):
            raise ConfigError(f"affine must be source, node or graph, got {self.affine!r}")
        if self.affine != "source" and (self.footage or not self.source_domain):
            raise ConfigError(
                "scale and bias are trained with the source's labels: give --data and "
                "--source-domain, or --affine source"
            )
        if min(self.affine_epochs, self.affine_lr) <= 0:
            raise ConfigError("affine_epochs and affine_lr must be above 0")

    def affine_options(self) -> AffineOptions:
        """How scale and bias are trained."""
        edges: Literal["graph", "none"] = "graph" if self.affine == "graph" else "none"
        return AffineOptions(edges, self.affine_epochs, self.affine_lr)


@dataclass(frozen=True)
class EvaluateOptions(PredictiveOptions):
    """Nodes from --data, streams from --stream-data."""

    stream_data: str = option("", "folder with the targets' labelled images", required=True)
    source_domain: str = option("", "domain that the model was trained on", required=True)
    targets: tuple[str, ...] = option((), "domains to stream; all but the source's if none")
    seeds: int = option(3, "orders of every stream, which also choose its frames")
    frames: int = option(80, "images of a stream")
    methods: tuple[str, ...] = option((), "starts to compare; all but `clusters` if none")
    refine_rate: float = option(
        0.0, "step of scale and bias with every update, for rows with refinement; 0: none"
    )
    auxiliary: tuple[int, ...] = option(
        (2, 4, 6, 8), "numbers of auxiliary domains, drawn at random, for the curve"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.footage:
            raise ConfigError("targets must be known: evaluate-predictive takes --data")
        if min(self.seeds, self.frames, *self.auxiliary, 1) < 1:
            raise ConfigError("seeds, frames and auxiliary must be at least 1")
        if self.refine_rate < 0:
            raise ConfigError("refine_rate must not be negative")

        if unknown := sorted(set(self.methods) - set(self.rows())):
            raise ConfigError(
                f"methods {', '.join(unknown)} are not among {', '.join(self.rows())}; refined "
                "ones need --refine-rate, full ones --affine"
            )

    def rows(self) -> list[str]:
        """Starts that can be compared: scale and bias of domains only if they were asked for."""
        refined, full = self.refine_rate > 0, self.affine != "source"
        asked = {"refined": refined, "full": full, "full_refined": refined and full}
        return [method for method in METHODS if asked.get(method, True)]

    def chosen(self) -> list[str]:
        """Starts to compare; the ends of the gap are always among them."""
        usual = [method for method in self.rows() if method != "clusters"]
        wanted = {*(self.methods or usual), "source", "both", "own_fixed"}
        return [method for method in self.rows() if method in wanted]
