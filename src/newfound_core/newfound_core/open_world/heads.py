# SPDX-License-Identifier: Apache-2.0
"""The open-world methods by name."""

from collections.abc import Mapping
from typing import Any

from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.open_world.bdoc import Bdoc
from newfound_core.open_world.deep_nno import DeepNno
from newfound_core.open_world.head import OpenWorldHead
from newfound_core.open_world.ncm import NearestClassMean, NearestNonOutlier
from newfound_core.open_world.ridge_lda import RidgeLda

HEADS: dict[str, type[OpenWorldHead]] = {
    head.name: head for head in (NearestClassMean, NearestNonOutlier, DeepNno, Bdoc, RidgeLda)
}

# Chosen on the choice classes of CIFAR-100 with the default network: `evaluate-openworld --preset
# choose_pretrained`; docs/results.md has the numbers.
CHOSEN: dict[str, dict[str, Any]] = {
    "ncm": {"thresholds": "percentile", "percentile": 75.0},
    "nno": {"learning_rate": 0.01},
    # Long features leave DeepNNO nothing to push apart; short ones need a higher rate.
    "deepnno": {
        "learning_rate": 0.1,
        "scale": 3.0,
        "threshold_from": "held_out",
        "rejected_weight": 9.0,
    },
    "bdoc": {"learning_rate": 0.01},
    "ridge_lda": {"learning_rate": 0.01},
}


def build_head(name: str, dimension: int, **options: Any) -> OpenWorldHead:
    """Make a head that knows nothing yet; `options` are those of its config."""
    if name not in HEADS:
        raise ConfigError(f"no open-world method is named {name!r}; there are {', '.join(HEADS)}")
    head_type = HEADS[name]
    try:
        config = head_type.config_type(**options)
    except TypeError as error:
        raise ConfigError(f"options of {name}: {error}") from error
    return head_type(dimension, config)


def head_from_options(options: Mapping[str, Any]) -> OpenWorldHead:
    """Make a head from what `options()` of another returned, ready for `load_tensors`."""
    expected = {"method", "dimension", "labels", "steps", "config"}
    # Earlier versions did not write the first; the second is of `ridge_lda`.
    found = set(options) - {"calibration", "sizes"}
    if found != expected:
        wrong = ", ".join(sorted(found ^ expected))
        raise CheckpointError(f"the options of an open-world head lack or exceed: {wrong}")
    if options["method"] not in HEADS:
        raise CheckpointError(f"no open-world method is named {options['method']!r}")
    return HEADS[options["method"]].from_options(options)
