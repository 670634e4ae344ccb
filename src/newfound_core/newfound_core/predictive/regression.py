# SPDX-License-Identifier: Apache-2.0
"""Weights with which known domains make up another one, from their encoded descriptions.

`kernel` is the thesis's (AdaGraph, arXiv:1903.07062): with distances d_v to the known domains,

    w_v = exp(-d_v² / (2 sigma)) / sum_k exp(-d_k² / (2 sigma))        (sigma is not squared)

`additive` is ours: least squares of the statistics on an intercept and one term per column, the
solution of least norm, or with `ridge` a penalty on it. In a matrix X of centred rows x_v,

    w_v = 1/n + (x - mean) (X'X + ridge I)^-1 x_v

Where domains are combinations of conditions it composes one never seen from its parts, and goes on
along a number; the kernel can only average. Its weights sum to 1, too, but may be negative.

`gaussian` is ours as well: a Gaussian process with an unknown mean (kriging). With the kernel
above without its denominator, k_v to the known domains and K among them, A = K + ridge I,

    w = A^-1 (k + m 1),       m such that the weights sum to 1

It composes as `additive` does where sigma is large, but what only some combinations of conditions
show (brown in cloudy light) stays with the domains near to them.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from newfound_core.errors import ConfigError

SAME = 1e-8  # of their largest difference: domains that differ less in a direction are alike

Regression = Literal["kernel", "additive", "gaussian"]


@dataclass(frozen=True)
class RegressionConfig:
    """How descriptions become weights."""

    regression: Regression = "kernel"
    sigma: float = 0.1  # of `kernel` and `gaussian`
    ridge: float = 0.0  # of `additive` and `gaussian`
    total_variance: bool = False  # of `kernel`: count the spread of the means as variance
    measured_weight: float = 1.0  # of measured fields beside described ones; 0: not used

    def __post_init__(self) -> None:
        checks = {
            f"regression must be one of {', '.join(get_args(Regression))}": self.regression
            in get_args(Regression),
            "sigma must be above 0": self.sigma > 0,
            "ridge must not be negative": self.ridge >= 0,
            "gaussian needs a ridge above 0": self.regression != "gaussian" or self.ridge > 0,
            "measured_weight must not be negative": self.measured_weight >= 0,
        }
        broken = [rule for rule, holds in checks.items() if not holds]
        if broken:
            raise ConfigError(f"{'; '.join(broken)}; got {self}")


def weights(one: np.ndarray, others: np.ndarray, config: RegressionConfig) -> np.ndarray:
    """The weight of each of the others, [n]; columns that are NaN in `one` do not count."""
    known = np.isfinite(one)
    if not known.any():
        return np.full(len(others), 1 / len(others))
    one, others = one[known], others[:, known]
    if config.regression == "kernel":
        return kernel_weights(((others - one) ** 2).sum(1), config.sigma)
    if config.regression == "gaussian":
        return gaussian_weights(one, others, config.sigma, config.ridge)
    return additive_weights(one, others, config.ridge)


def kernel_weights(squared_distances: np.ndarray, sigma: float) -> np.ndarray:
    """Softmax of -d² / (2 sigma): the ratios of the thesis, without 0 / 0 far away."""
    exponents = -squared_distances / (2 * sigma)
    found = np.exp(exponents - exponents.max())
    return found / found.sum()


def additive_weights(one: np.ndarray, others: np.ndarray, ridge: float) -> np.ndarray:
    """The row of the smoother matrix of linear regression that belongs to `one`."""
    mean = others.mean(0)
    left, sizes, right = np.linalg.svd(others - mean, full_matrices=False)
    # A direction in which the domains do not differ tells nothing: the solution of least norm.
    kept = sizes > sizes.max(initial=0.0) * SAME
    inverse = np.zeros_like(sizes)
    inverse[kept] = sizes[kept] / (sizes[kept] ** 2 + ridge)
    return 1 / len(others) + (right @ (one - mean) * inverse) @ left.T


def gaussian_weights(
    one: np.ndarray, others: np.ndarray, sigma: float, ridge: float
) -> np.ndarray:
    """The weights of a Gaussian process with an unknown mean."""

    def kernel(points: np.ndarray) -> np.ndarray:
        apart = points[:, None] - others[None]
        return np.exp(-(apart**2).sum(2) / (2 * sigma))

    known = kernel(others) + ridge * np.eye(len(others))
    right = np.stack([kernel(one[None])[0], np.ones(len(others))], 1)
    found, ones = np.linalg.solve(known, right).T
    return found + ones * (1 - found.sum()) / ones.sum()


def edge_weights(nodes: np.ndarray, sigma: float = 0.1) -> np.ndarray:
    """The thesis's edges among nodes of encoded descriptions [nodes, columns], [nodes, nodes].

    A row sums to 1 and says of which nodes' scale and bias that node's are composed, itself
    included.
    """
    apart = nodes[:, None] - nodes[None]
    return np.stack([kernel_weights(row, sigma) for row in (apart**2).sum(2)])
