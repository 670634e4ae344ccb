# SPDX-License-Identifier: Apache-2.0
"""What a stream of right and wrong predictions says.

`correct` is a boolean array, one value for each frame in the order of the stream. Accuracy after
a share of the stream is that of the tenth of the stream which begins there, with the statistics
as they are then (and still following).
"""

from collections.abc import Sequence

import numpy as np

SHARES = (25, 50, 90)  # percent of the stream, as in the thesis
WINDOW = 10  # percent
SMALLEST_GAP = 0.02  # below it a share of the gap would be noise divided by noise


def accuracies(correct: np.ndarray) -> dict[str, float]:
    """Accuracy after 25, 50 and 90 percent, in the last half, and over all."""
    count = len(correct)
    values = {}
    for share in SHARES:
        first = count * share // 100
        window = correct[first : max(first + 1, count * (share + WINDOW) // 100)]
        values[f"after_{share}"] = float(window.mean())
    values["last_half"] = float(last_half(correct).mean())
    values["all"] = float(correct.mean())
    return values


def last_half(correct: np.ndarray) -> np.ndarray:
    """The second half of a stream."""
    return correct[len(correct) // 2 :]


def gap_closed(online: float, source_only: float, re_estimated: float) -> float | None:
    """The share of the way from source only up to re-estimated.

    None where re-estimating gains less than two points, or loses: there is no gap to close.
    """
    gap = re_estimated - source_only
    return None if gap < SMALLEST_GAP else (online - source_only) / gap


def mean_of(measures: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each measure."""
    return {name: float(np.mean([m[name] for m in measures])) for name in measures[0]}


def curve(streams: Sequence[np.ndarray], window: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Frame numbers and moving accuracy, averaged over streams of the same length."""
    together = np.mean(np.stack(streams).astype(float), axis=0)
    window = min(window, max(1, len(together) // 5))
    sums = np.cumsum(np.insert(together, 0, 0.0))
    values = (sums[window:] - sums[:-window]) / window
    return np.arange(len(values)) + window, values
