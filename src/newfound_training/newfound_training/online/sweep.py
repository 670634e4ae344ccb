# SPDX-License-Identifier: Apache-2.0
"""How fast and how well ONDA follows for other alpha and n_t, as in the thesis's figure."""

from dataclasses import replace
from typing import Any

import numpy as np

from newfound_training.online.measures import accuracies, mean_of
from newfound_training.online.options import OnlineOptions
from newfound_training.online.streams import Target

Streams = dict[str, dict[float, list[np.ndarray]]]  # option, value, orders


def sweep_streams(target: Target, options: OnlineOptions) -> Streams:
    """Streams with one of the two options varied and the other at its value."""
    base = options.onda(options.sweep_estimator)
    varied: dict[str, tuple[Any, ...]] = {
        "momentum": options.sweep_momentum,
        "frames_per_update": options.sweep_frames,
    }
    return {
        name: {
            value: [
                target.stream(replace(base, **{name: value}), number)
                for number in range(options.sweep_orders)
            ]
            for value in values
        }
        for name, values in varied.items()
    }


def summary(streams: Streams) -> dict[str, dict[str, dict[str, Any]]]:
    """Accuracies for each value, averaged over orders."""
    return {
        name: {str(v): mean_of([accuracies(c) for c in runs]) for v, runs in values.items()}
        for name, values in streams.items()
    }
