# SPDX-License-Identifier: Apache-2.0
"""Every option of ONDA as a parameter, with the same name and default."""

from collections.abc import Mapping
from typing import Any

from newfound_core.onda import OndaConfig
from newfound_runtime.parameters import Parameter

_DEFAULT = OndaConfig()
_LOW, _HIGH = _DEFAULT.anchor_entropy_band
_TINY = 1e-6  # for ranges that leave out zero
_CONSTANT = 0.0  # as `settled_momentum`: ROS parameters have no None

PARAMETERS = (
    Parameter("adapt", True, "Let the statistics follow the stream; false: the model as trained."),
    Parameter(
        "freeze", False, "Keep the statistics as they are now; also by ~/freeze.", live=True
    ),
    Parameter(
        "estimator",
        _DEFAULT.estimator,
        "batch: a second pass in another thread, as exact as training; "
        "streaming: while predicting, without a second pass.",
        choices=("batch", "streaming"),
    ),
    Parameter(
        "frames_per_update",
        _DEFAULT.frames_per_update,
        "Images behind one update of the statistics (n_t).",
        minimum=2,
        maximum=1000,
        live=True,
    ),
    Parameter(
        "momentum",
        _DEFAULT.momentum,
        "Weight of an update (alpha), above 0, at most 1.",
        minimum=_TINY,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        "settled_momentum",
        _DEFAULT.settled_momentum or _CONSTANT,
        "What the momentum falls to while the stream stays as it is; 0: it does not fall.",
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        "positions_per_frame",
        _DEFAULT.positions_per_frame,
        "Positions of a feature map that `streaming` looks at in each image.",
        minimum=1,
    ),
    Parameter(
        "balanced",
        _DEFAULT.balanced,
        "Draw the images of an update from a memory balanced over predicted classes.",
    ),
    Parameter("memory_size", _DEFAULT.memory_size, "Images in that memory.", minimum=2),
    Parameter(
        "anchor",
        _DEFAULT.anchor,
        "Serve a mixture of source and online statistics; back to the source when lost.",
    ),
    Parameter(
        "anchor_online_share",
        _DEFAULT.anchor_online_share,
        "Share of the online statistics in that mixture, above 0, at most 1.",
        minimum=_TINY,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        "anchor_max_drift",
        _DEFAULT.anchor_max_drift,
        "Mean drift over the layers, in nats, above which adaptation counts as lost.",
        minimum=_TINY,
        live=True,
    ),
    Parameter(
        "anchor_entropy_low",
        _LOW,
        "Lower end of the band of the mean prediction entropy, as a share of the largest.",
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        "anchor_entropy_high",
        _HIGH,
        "Upper end of that band; outside of it adaptation counts as lost.",
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        "skip_redundant",
        _DEFAULT.skip_redundant,
        "Images that look like the last one that counted do not count.",
    ),
    Parameter(
        "redundancy_threshold",
        _DEFAULT.redundancy_threshold,
        "Mean difference of thumbnails, in normalised pixels, below which images look alike.",
        minimum=0.0,
        live=True,
    ),
)

_BAND = ("anchor_entropy_low", "anchor_entropy_high")
NAMES = frozenset(p.name for p in PARAMETERS) - {"adapt", "freeze"}


def options(values: Mapping[str, Any]) -> dict[str, Any]:
    """ONDA's options among the values of parameters; both ends of the band or none."""
    found = {name: values[name] for name in NAMES - set(_BAND) if name in values}
    if all(name in values for name in _BAND):
        found["anchor_entropy_band"] = tuple(values[name] for name in _BAND)
    if "settled_momentum" in found:
        found["settled_momentum"] = found["settled_momentum"] or None
    return found
