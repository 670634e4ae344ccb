# SPDX-License-Identifier: Apache-2.0
"""Euclidean distances between features and class means, by matrix product."""

from typing import Literal

import torch
from torch import Tensor

# "norm": ||r - c|| / sigma; "squared": ||r - c||² / sigma², as printed in the thesis;
# "squared_summed": the same with the variances of the dimensions summed, not averaged.
DistanceForm = Literal["norm", "squared", "squared_summed"]

# Below this a squared distance has no useful gradient: its root would divide by zero.
SMALLEST_SQUARE = 1e-12


def squared_distances(rows: Tensor, columns: Tensor) -> Tensor:
    """Return ||r - c||² for every row r [N, D] and column c [C, D], as [N, C].

    ||r||² - 2 r·c + ||c||² loses digits when the vectors are long and close together, as
    features after a ReLU are. Distances do not change when both sides are moved by the same
    vector, so both are first moved to the centre of the columns.
    """
    centre = columns.detach().mean(dim=0, keepdim=True)
    rows, columns = rows - centre, columns - centre
    squares = rows.square().sum(1, keepdim=True) + columns.square().sum(1)
    return torch.addmm(squares, rows, columns.T, alpha=-2).clamp_min(0)


def root(squares: Tensor) -> Tensor:
    """Square root with gradient zero, not infinite, where the distance vanishes."""
    return squares.clamp_min(SMALLEST_SQUARE).sqrt()


def scaled_distances(
    squares: Tensor, variance: Tensor, form: DistanceForm, dimension: int = 1
) -> Tensor:
    """Measure distances in units of the features' variance, in one of the forms of B-DOC.

    `variance` is that of one feature element, averaged over the `dimension` elements.
    """
    variance = variance.clamp_min(SMALLEST_SQUARE)
    if form == "norm":
        return root(squares) / variance.sqrt()
    if form == "squared":
        return squares / variance
    return squares / (variance * dimension)
