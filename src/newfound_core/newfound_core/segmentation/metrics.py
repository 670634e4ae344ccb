# SPDX-License-Identifier: Apache-2.0
"""Intersection over union, as MiB counts it: over all pixels of a test set, background apart."""

from collections.abc import Sequence

import numpy as np

from newfound_core.errors import DataError
from newfound_core.segmentation import UNLABELLED


class Confusion:
    """Pixels by true class and predicted class; the last column counts rejected ones."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.counts = np.zeros((classes, classes + 1), np.int64)

    def add(self, truth: np.ndarray, predicted: np.ndarray) -> None:
        """Count a label image and what was predicted; unlabelled pixels do not count."""
        if truth.shape != predicted.shape:
            raise DataError(f"a mask {predicted.shape} does not fit its label image {truth.shape}")
        known = truth != UNLABELLED
        rows = truth[known].astype(np.int64)
        columns = predicted[known].astype(np.int64)
        columns[columns == UNLABELLED] = self.classes
        if rows.size and (rows.max() >= self.classes or columns.max() > self.classes):
            raise DataError(
                f"a label of {max(rows.max(), columns.max())} is outside of the {self.classes} "
                "classes"
            )
        pairs = rows * (self.classes + 1) + columns
        counts = np.bincount(pairs, minlength=self.counts.size)
        self.counts += counts.reshape(self.counts.shape)

    def iou(self) -> np.ndarray:
        """True positives over union, by class; NaN for a class without true pixels."""
        right = np.diagonal(self.counts).astype(float)
        true = self.counts.sum(1).astype(float)
        found = self.counts[:, : self.classes].sum(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(true > 0, right / (true + found - right), np.nan)

    def mean_iou(self, classes: Sequence[int]) -> float:
        """The mean over classes that have true pixels; NaN if none has."""
        values = self.iou()[list(classes)]
        values = values[~np.isnan(values)]
        return float(values.mean()) if values.size else float("nan")


def step_metrics(confusion: Confusion, old: int, classes: int) -> dict[str, float]:
    """Mean IoU of old, new and all classes without the background, and the background's own.

    The first `old` classes, background included, are those of earlier steps.
    """
    return {
        "old": confusion.mean_iou(range(1, old)),
        "new": confusion.mean_iou(range(old, classes)),
        "all": confusion.mean_iou(range(1, classes)),
        "background": confusion.mean_iou([0]),
    }
