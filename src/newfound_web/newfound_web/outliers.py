# SPDX-License-Identifier: Apache-2.0
"""Images that do not belong: unlike the others of the label, and unlike the crop."""

import numpy as np

ENOUGH_TO_JUDGE = 5  # images; among fewer, none can be called unusual
_MAD_TO_SIGMA = 1.4826  # of a normal distribution


def typical(
    features: np.ndarray, crop: np.ndarray | None = None, limit: float = 1.5
) -> np.ndarray:
    """Which images to keep, bool [N].

    features [N, D] and crop [D] are compared by their cosine. An image's score is how far its
    agreement lies from the median of all, in robust standard deviations: agreement with the
    others and, if there is a crop, with the crop, in equal parts. Below -limit it is dropped.
    """
    count = len(features)
    if count < ENOUGH_TO_JUDGE:
        return np.ones(count, bool)
    unit = _unit(features)
    score = standing(agreement(unit))
    if crop is not None:
        score = (score + standing(unit @ _unit(crop))) / 2
    return score >= -limit


def agreement(unit: np.ndarray) -> np.ndarray:
    """Mean cosine of each image with the nearer half of the others, [N].

    The nearer half, because a thing has several looks and one need not be like all of them;
    half, because fewer neighbours would let wrong images that are alike vouch for each other.
    """
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    nearest = -np.sort(-cosine, axis=1)[:, : max(1, (len(unit) - 1) // 2)]
    return nearest.mean(axis=1)


def standing(values: np.ndarray) -> np.ndarray:
    """Distance from the median in robust standard deviations; 0 where all are the same."""
    distance = values - np.median(values)
    spread = _MAD_TO_SIGMA * np.median(np.abs(distance))
    return distance / max(float(spread), 1e-6)


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(length, 1e-12)
