# SPDX-License-Identifier: Apache-2.0
"""ONDA over a recorded stream, many frames at a time.

Between two updates the statistics do not change, so `Onda.replay` predicts the frames in between
as one batch, with the same result as frame by frame and several times as fast. `verify` checks
that on real frames.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.estimators import BatchEstimator
from newfound_core.onda.statistics import NormalizationLayers, Statistics
from newfound_core.onda.watch import confidence

Frames = Callable[[np.ndarray], Tensor]  # indices to prepared images on the model's device


def replay(model: nn.Module, frames: Frames, order: np.ndarray, config: OndaConfig) -> np.ndarray:
    """The most probable class of each frame, rejected or not; the model is left as it was."""
    onda = Onda(model, config)
    predicted = []
    try:
        starts = range(0, len(order), config.frames_per_update)
        for start in tqdm(starts, config.estimator, leave=False, disable=None):
            chunk = frames(order[start : start + config.frames_per_update])
            predicted.append(confidence(model, onda.replay(chunk))[1].cpu().numpy())
    finally:
        onda.reset()
        onda.close()
    return np.concatenate(predicted)


def verify(
    model: nn.Module, frames: Frames, order: np.ndarray, config: OndaConfig
) -> dict[str, int]:
    """Count the frames that the replay and `Onda`, frame by frame, predict alike."""
    fast = replay(model, frames, order, config)
    onda = Onda(model, config)
    try:
        each = (onda(frames(order[i : i + 1])) for i in range(len(order)))
        slow = [int(confidence(model, logits)[1]) for logits in each]
    finally:
        onda.reset()
        onda.close()
    return {"frames": len(order), "predicted_alike": int((fast == np.array(slow)).sum())}


@torch.no_grad()
def re_estimate(
    model: nn.Module, frames: Frames, order: np.ndarray, size: int = 64, which: str = "all"
) -> Statistics:
    """Statistics of a whole domain: those of batches, as in training, averaged.

    `which` layers adapt, as `OndaConfig.layers`; the others keep theirs.
    """
    layers = NormalizationLayers(model, which)
    current = layers.read()
    second_pass = BatchEstimator(layers)
    total, weight = None, 0
    for start in range(0, len(order), size):
        chunk = frames(order[start : start + size])
        if len(chunk) < 2:
            continue
        found = second_pass.estimate([chunk], current).statistics
        weight += len(chunk)
        total = found if total is None else total.lerp(found, len(chunk) / weight)
    return current if total is None else total


@torch.no_grad()
def predict_with(
    model: nn.Module, statistics: Statistics | None, frames: Frames, order: np.ndarray
) -> np.ndarray:
    """Predictions with fixed statistics; the model's own if none are given."""
    layers = NormalizationLayers(model)
    source = layers.read()
    if statistics is not None:
        layers.write(statistics)
    try:
        chunks = (model(frames(order[i : i + 50])) for i in range(0, len(order), 50))
        parts = [confidence(model, logits)[1] for logits in chunks]
    finally:
        layers.write(source)
    return torch.cat(parts).cpu().numpy()
