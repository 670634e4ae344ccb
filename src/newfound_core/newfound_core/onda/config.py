# SPDX-License-Identifier: Apache-2.0
"""Every option of ONDA, in one place."""

import re
from dataclasses import dataclass
from typing import Literal

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

    # Frames of an update come from a memory balanced over predicted classes.
    balanced: bool = False
    memory_size: int = 64

    # Serve a mixture of source and online statistics; return to the source when lost.
    anchor: bool = False
    anchor_online_share: float = 0.8  # rho: 1 would be ONDA alone, 0 the source alone
    # Mean over layers of the symmetric KL, in nats; from photographs to cartoons it is 0.1.
    anchor_max_drift: float = 1.0
    anchor_entropy_band: tuple[float, float] = (0.0, 0.95)  # of the largest possible entropy

    # Frames that look like the last one that counted do not count.
    skip_redundant: bool = False
    redundancy_threshold: float = 0.02  # mean difference of 8 x 8 thumbnails, normalised pixels

    def __post_init__(self) -> None:
        low, high = self.anchor_entropy_band
        checks = {
            "frames_per_update must be at least 2": self.frames_per_update >= 2,
            "momentum must be in (0, 1]": 0 < self.momentum <= 1,
            "settled_momentum must be in (0, 1] or None": self.settled_momentum is None
            or 0 < self.settled_momentum <= 1,
            "estimator must be 'batch' or 'streaming'": self.estimator in ("batch", "streaming"),
            "layers must be all, auto or last:n with n at least 1": is_layer_choice(self.layers),
            "positions_per_frame must be at least 1": self.positions_per_frame >= 1,
            "memory_size must be at least 2": self.memory_size >= 2,
            "anchor_online_share must be in (0, 1]": 0 < self.anchor_online_share <= 1,
            "anchor_max_drift must be positive": self.anchor_max_drift > 0,
            "anchor_entropy_band must be 0 <= low < high <= 1": 0 <= low < high <= 1,
            "redundancy_threshold must not be negative": self.redundancy_threshold >= 0,
        }
        broken = [rule for rule, holds in checks.items() if not holds]
        if broken:
            raise ConfigError(f"{'; '.join(broken)}; got {self}")


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
        "anchor_max_drift",
        "anchor_entropy_band",
        "redundancy_threshold",
    }
)
