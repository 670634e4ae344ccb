# SPDX-License-Identifier: Apache-2.0
"""Held-out parts of a set, the same for the same seed on every machine."""

import numpy as np

from newfound_core.errors import ConfigError


def split(labels: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train on, and a share of every class (at least one, if it has two) held out."""
    if not 0 <= share < 1:
        raise ConfigError(f"the share held out must be in [0, 1), got {share}")
    generator = np.random.default_rng([seed, 1])
    held_out: list[np.ndarray] = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        count = min(len(members) - 1, max(1, round(share * len(members)))) if share else 0
        held_out.append(members[:count])
    validation = np.sort(np.concatenate(held_out))
    training = np.setdiff1d(np.arange(len(labels)), validation)
    return training, validation
