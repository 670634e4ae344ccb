# SPDX-License-Identifier: Apache-2.0
"""Images that do not belong: unlike the others of the label, and unlike the crop."""

import numpy as np

ENOUGH_TO_JUDGE = 5  # images; among fewer, none can be called unusual
CROP_WEIGHT = 0.25  # of the crop in the score: it is one image, often of another camera and light
ROUNDS = 5  # of refining the centre; it rarely moves after three
_MAD_TO_SIGMA = 1.4826  # of a normal distribution


def typical(
    features: np.ndarray, crop: np.ndarray | None = None, limit: float = 0.8
) -> np.ndarray:
    """Which images to keep, bool [N].

    features [N, D] and crop [D] are compared by their cosine. An image's score is how far its
    agreement lies from the median of all, in robust standard deviations: agreement with the
    others and, if there is a crop, partly with the crop. Below -limit it is dropped.
    """
    count = len(features)
    if count < ENOUGH_TO_JUDGE:
        return np.ones(count, bool)
    unit = _unit(features)
    score = standing(agreement(unit))
    if crop is not None:
        with_crop = standing(unit @ _unit(crop))
        score = (1 - CROP_WEIGHT) * score + CROP_WEIGHT * with_crop
    return score >= -limit


def agreement(unit: np.ndarray) -> np.ndarray:
    """Cosine of each image with the centre of the half that agrees best, [N].

    That half is found by repetition, beginning with the images that are nearest to half of the
    others. Wrong images that are alike cannot vouch for each other while they are fewer.
    """
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    half = max(1, len(unit) // 2)
    score = -np.sort(-cosine, axis=1)[:, :half].mean(axis=1)
    for _ in range(ROUNDS):
        best = np.argsort(-score, kind="stable")[:half]
        score = unit @ _unit(unit[best].mean(axis=0))
    return score


def standing(values: np.ndarray) -> np.ndarray:
    """Distance from the median in robust standard deviations; 0 where all are the same."""
    distance = values - np.median(values)
    spread = _MAD_TO_SIGMA * np.median(np.abs(distance))
    return distance / max(float(spread), 1e-6)


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(length, 1e-12)
