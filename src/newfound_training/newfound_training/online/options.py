# SPDX-License-Identifier: Apache-2.0
"""Every option of `evaluate_online`."""

from dataclasses import dataclass
from itertools import product
from typing import Literal

from newfound_core.errors import ConfigError
from newfound_core.onda import OndaConfig
from newfound_training.data import ImageSet
from newfound_training.running.options import CommonOptions, option


@dataclass(frozen=True)
class OnlineOptions(CommonOptions):
    """Models, streams, and options of ONDA."""

    pairs: tuple[str, ...] = option((), "source:target; all ordered pairs of domains if none")
    checkpoint: str = option("", "use this model for all pairs instead of training the sources")
    source_data: str = option("", "folder with the sources' images, if not that of the targets")
    conditions: tuple[str, ...] = option(
        (), "what the parts of a domain's name mean; gains are then given by number of changes"
    )
    source_preset: str = option("small", "preset of train-source for the models trained here")
    orders: int = option(3, "shufflings of every target stream")
    frames: int = option(0, "images taken of every target, at random; 0 is all")
    passes: int = option(1, "times that a stream shows every image, in another order each time")
    estimators: tuple[Literal["batch", "streaming"], ...] = option(
        ("batch", "streaming"), "of ONDA's statistics"
    )
    frames_per_update: int = option(10, "n_t of the thesis")
    momentum: float = option(0.1, "alpha of the thesis")
    settled_momentum: float | None = option(
        None, "of `streaming`: where alpha falls to while the stream stays as it is"
    )
    sweep_pair: str = option("", "source:target on which the two are varied; none: no sweep")
    sweep_momentum: tuple[float, ...] = option((0.01, 0.05, 0.1, 0.2, 0.5), "values of alpha")
    sweep_frames: tuple[int, ...] = option((2, 5, 10, 20, 30), "values of n_t")
    sweep_orders: int = option(3, "shufflings in the sweep")
    sweep_estimator: Literal["batch", "streaming"] = option("batch", "estimator in the sweep")
    dial: tuple[str, ...] = option((), "pairs for which two-domain training (DIAL) is run too")
    streams: tuple[Literal["shuffled", "sorted", "bursty", "alternating", "video"], ...] = option(
        (), "make the table of these streams and of every guard instead"
    )
    methods: tuple[str, ...] = option((), "of that table; all if none is named")
    burst: int = option(20, "frames of one class (bursty) or domain (alternating) in a row")
    verify_frames: int = option(100, "frames given to ONDA one by one, to check the fast replay")

    def __post_init__(self) -> None:
        if min(self.orders, self.sweep_orders, self.passes) < 1:
            raise ConfigError("orders, sweep_orders and passes must be at least 1")
        if self.burst < 1:
            raise ConfigError("burst must be at least 1")
        if not self.estimators:
            raise ConfigError("name at least one estimator")
        for momentum in (self.momentum, *self.sweep_momentum):
            OndaConfig.thesis(self.frames_per_update, momentum)  # refuses what makes no sense
        for frames in self.sweep_frames:
            OndaConfig.thesis(frames, self.momentum, settled_momentum=self.settled_momentum)

    def onda(self, estimator: Literal["batch", "streaming"]) -> OndaConfig:
        """Options of ONDA in the table: as in the thesis."""
        settled = self.settled_momentum if estimator == "streaming" else None
        return OndaConfig.thesis(
            self.frames_per_update, self.momentum, estimator, settled_momentum=settled
        )


def chosen_pairs(
    options: OnlineOptions, sources: ImageSet, targets: ImageSet
) -> list[tuple[str, str]]:
    """The pairs of the table."""
    if options.pairs:
        return [parse_pair(text, options, sources, targets) for text in options.pairs]
    if options.checkpoint:
        raise ConfigError("with --checkpoint name the pairs: --pairs <trained on>:<streamed>")
    everything = product(sources.domain_names, targets.domain_names)
    return [(source, target) for source, target in everything if source != target]


def refuse_other_dial_pairs(options: OnlineOptions, pairs: list[tuple[str, str]]) -> None:
    """A ConfigError for a pair of --dial that the table does not have."""
    known = [f"{source}:{target}" for source, target in pairs]
    for text in options.dial:
        if text not in known:
            raise ConfigError(
                f"dial names {text!r}, but the pairs of the table are {', '.join(known)}"
            )


def parse_pair(
    text: str, options: OnlineOptions, sources: ImageSet, targets: ImageSet
) -> tuple[str, str]:
    """`source:target` with domains that exist; a checkpoint's source need not be in the data."""
    source, separator, target = text.partition(":")
    if not separator:
        raise ConfigError(f"a pair is written source:target, got {text!r}")
    targets.domain_index(target)
    if not options.checkpoint:
        sources.domain_index(source)
    return source, target
