# SPDX-License-Identifier: Apache-2.0
"""Every option of ONDA, in one place."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from newfound_core.errors import ConfigError


@dataclass(frozen=True)
class OndaConfig:
    """Speed at which the statistics follow the stream, and safeguards."""

    frames_per_update: int = 10  # n_t in the thesis
    momentum: float = 0.1  # alpha in the thesis
    # batch: a second pass of the frames, normalised by their own statistics, as in training.
    # streaming: statistics gathered while the frames are predicted; no second pass.
    estimator: Literal["batch", "streaming"] = "batch"
    # Normalisation layers that follow the stream: `all`, the last n as in `last:4`, or `auto`:
    # what the checkpoint says (`adaptive_layers` of the network), all if it says nothing. The
    # others keep the source statistics.
    layers: str = "auto"
    # `streaming` looks at a grid of about this many positions of a feature map, another one in
    # every frame: ten frames are 160 values per channel, and updates average over many frames.
    # Reading all positions would take half as long as the network and tell little that is new.
    positions_per_frame: int = 16
    # Where the momentum falls to while the stream stays as it is (see safeguards.py); None: it
    # stays, as in the thesis.
    settled_momentum: float | None = None

    # Adam's step of scale and bias with every update (see refinement.py); 0: they stay.
    refine_rate: float = 0.0

    # Frames of an update come from a memory balanced over predicted classes.
    balanced: bool = True
    memory_size: int = 64

    # Serve a mixture of source and online statistics.
    anchor: bool = False
    anchor_online_share: float = 0.8  # rho: 1 would be ONDA alone, 0 the source alone

    # Adapt only while the source is less confident by so much than on its own held-out images,
    # where the checkpoint knows that (`source_confidence` of the network); 0: always.
    confidence_drop: float = 0.01
    # Return to the source when the adapted network contradicts it (see watch.py).
    alarm: bool = True
    alarm_agreement: float = 0.75  # with the source, on images that it is certain of
    alarm_hold: int = 200  # frames without adaptation afterwards; doubles with every alarm

    # Frames that look like the last one that counted do not count.
    skip_redundant: bool = False
    redundancy_threshold: float = 0.02  # mean difference of 8 x 8 thumbnails, normalised pixels

    def __post_init__(self) -> None:
        checks = {
            "frames_per_update must be at least 2": self.frames_per_update >= 2,
            "momentum must be in (0, 1]": 0 < self.momentum <= 1,
            "settled_momentum must be in (0, 1] or None": self.settled_momentum is None
            or 0 < self.settled_momentum <= 1,
            "estimator must be 'batch' or 'streaming'": self.estimator in ("batch", "streaming"),
            "layers must be all, auto or last:n with n at least 1": is_layer_choice(self.layers),
            "positions_per_frame must be at least 1": self.positions_per_frame >= 1,
            "refine_rate must not be negative, and needs the estimator batch": (
                self.refine_rate == 0 or (self.refine_rate > 0 and self.estimator == "batch")
            ),
            "memory_size must be at least 2": self.memory_size >= 2,
            "anchor_online_share must be in (0, 1]": 0 < self.anchor_online_share <= 1,
            "confidence_drop must be in [0, 1)": 0 <= self.confidence_drop < 1,
            "alarm_agreement must be in (0, 1)": 0 < self.alarm_agreement < 1,
            "alarm_hold must be at least 1": self.alarm_hold >= 1,
            "balanced needs the estimator batch: streaming measures a frame behind the layers as "
            "they are then, which is out of date when it is drawn from the memory. Set balanced "
            "to false or the estimator to batch": not self.balanced or self.estimator == "batch",
            "redundancy_threshold must not be negative": self.redundancy_threshold >= 0,
        }
        broken = [rule for rule, holds in checks.items() if not holds]
        if broken:
            raise ConfigError(f"{'; '.join(broken)}; got {self}")

    @classmethod
    def thesis(cls, *options: Any, **more: Any) -> "OndaConfig":
        """ONDA as printed: all layers follow the latest frames, without any guard."""
        off: dict[str, Any] = {"layers": "all", "balanced": False, "alarm": False}
        return cls(*options, **off | {"confidence_drop": 0.0} | more)


def is_layer_choice(layers: str) -> bool:
    """Whether this is a value of `layers`."""
    return layers in ("all", "auto") or re.fullmatch("last:[1-9][0-9]*", layers) is not None


def adapting_layers(layers: str, count: int) -> range:
    """The indices of the layers that follow the stream, of a network with `count` of them."""
    number = count if layers == "all" else int(layers.removeprefix("last:"))
    if number > count:
        raise ConfigError(
            f"layers is {layers}, but the network has {count} normalisation layers: choose at "
            f"most last:{count}, which is all"
        )
    return range(count - number, count)


# What may change while the stream runs; the rest decides how the adapter is built.
LIVE_OPTIONS = frozenset(
    {
        "frames_per_update",
        "momentum",
        "settled_momentum",
        "anchor_online_share",
        "confidence_drop",
        "alarm_agreement",
        "alarm_hold",
        "redundancy_threshold",
    }
)
