# SPDX-License-Identifier: Apache-2.0
"""Selection of fetched images: drop near-duplicates and outliers."""

import cv2
import numpy as np

SAME_WITHIN = 4  # of 64 bits
ENOUGH_TO_JUDGE = 5  # images; among fewer, none can be called an outlier
CROP_WEIGHT = 0.25  # of the crop in the score: it is one image, often of another camera and light
ROUNDS = 5  # of refining the centre; it rarely moves after three
_MAD_TO_SIGMA = 1.4826  # of a normal distribution


def difference_hash(rgb: np.ndarray) -> int:
    """64 bits: for each cell of an 8 x 8 grid, whether it gets brighter to the right."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    cells = cv2.resize(grey, (9, 8), interpolation=cv2.INTER_AREA).astype(np.int16)
    bits = np.packbits(cells[:, 1:] > cells[:, :-1])
    return int.from_bytes(bits.tobytes(), "big")


class DuplicateFilter:
    """Recognises an image that came before, also resized, saved again or a little brighter."""

    def __init__(self, same_within: int = SAME_WITHIN) -> None:
        self._same_within = same_within
        self._hashes: list[int] = []

    def add(self, picture_hash: int) -> bool:
        """Add a difference hash; False if a near-duplicate was there already."""
        for known in self._hashes:
            if (known ^ picture_hash).bit_count() <= self._same_within:
                return False
        self._hashes.append(picture_hash)
        return True


def inliers(
    features: np.ndarray, crop: np.ndarray | None = None, limit: float = 0.8
) -> np.ndarray:
    """Which images to keep, bool [N].

    features [N, D] and crop [D] are compared by cosine similarity. An image's score is how far
    its similarity lies from the median of all, in robust standard deviations: similarity to the
    other images and, if there is a crop, partly to the crop. Below -limit it is dropped.
    """
    count = len(features)
    if count < ENOUGH_TO_JUDGE:
        return np.ones(count, bool)
    unit = _unit(features)
    score = robust_z_score(consensus_similarity(unit))
    if crop is not None:
        with_crop = robust_z_score(unit @ _unit(crop))
        score = (1 - CROP_WEIGHT) * score + CROP_WEIGHT * with_crop
    return score >= -limit


def consensus_similarity(unit: np.ndarray) -> np.ndarray:
    """Cosine similarity of each image to the centre of the most consistent half, [N].

    That half is found iteratively, starting with the images that are nearest to half of the
    others. Wrong images that resemble each other do not count while they are the minority.
    """
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    half = max(1, len(unit) // 2)
    score = -np.sort(-cosine, axis=1)[:, :half].mean(axis=1)
    for _ in range(ROUNDS):
        best = np.argsort(-score, kind="stable")[:half]
        score = unit @ _unit(unit[best].mean(axis=0))
    return score


def robust_z_score(values: np.ndarray) -> np.ndarray:
    """Distance from the median in robust standard deviations (MAD); 0 where all are equal."""
    distance = values - np.median(values)
    spread = _MAD_TO_SIGMA * np.median(np.abs(distance))
    return distance / max(float(spread), 1e-6)


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(length, 1e-12)
