# SPDX-License-Identifier: Apache-2.0
"""ONDA over a recorded stream, many frames at a time.

Between two updates the statistics do not change, so the frames in between can be predicted
as one batch, with the same result as `Onda` gets frame by frame and several times as fast.
`verify` checks that on real frames.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.estimators import BatchEstimator, Estimate, sample_grid
from newfound_core.onda.safeguards import Settling
from newfound_core.onda.statistics import NormalizationLayers, Statistics

Frames = Callable[[np.ndarray], Tensor]  # indices to prepared images on the model's device


class ChunkEstimator(Protocol):
    """Statistics of the frames that were just predicted."""

    def start(self, number: int) -> None:
        """Called before a chunk is predicted; `number` frames came before it."""

    def estimate(self, frames: Tensor, current: Statistics) -> Statistics:
        """Called after it."""

    def close(self) -> None:
        """Leave the network alone."""


@torch.no_grad()
def replay(model: nn.Module, frames: Frames, order: np.ndarray, config: OndaConfig) -> np.ndarray:
    """The class predicted for each frame of the stream; the model is left as it was."""
    layers = NormalizationLayers(model)
    source = online = layers.read()
    estimator: ChunkEstimator
    if config.estimator == "batch":
        estimator = SecondPass(layers)
    else:
        estimator = GridListener(layers, config.positions_per_frame)
    settling = Settling()
    predicted = []
    try:
        starts = range(0, len(order), config.frames_per_update)
        for start in tqdm(starts, config.estimator, leave=False, disable=None):
            chunk = frames(order[start : start + config.frames_per_update])
            estimator.start(start)
            predicted.append(model(chunk).argmax(1).cpu().numpy())
            if len(chunk) == config.frames_per_update:
                found = Estimate(estimator.estimate(chunk, online), torch.ones(1))
                momentum = settling.momentum(config, online, found)
                online = online.lerp(found.statistics, momentum)
                layers.write(online)
    finally:
        estimator.close()
        layers.write(source)
    return np.concatenate(predicted)


class SecondPass:
    """Estimator `batch`: the frames once more, normalised by their own statistics."""

    def __init__(self, layers: NormalizationLayers) -> None:
        self._estimator = BatchEstimator(layers)

    def start(self, number: int) -> None:
        """Nothing to prepare."""

    def estimate(self, frames: Tensor, current: Statistics) -> Statistics:
        """Estimate in a twin of the network."""
        return self._estimator.estimate([frames], current).statistics

    def close(self) -> None:
        """Nothing was changed."""


class GridListener:
    """Estimator `streaming`: what the layers saw, on the grid that `Onda` uses in each frame."""

    def __init__(self, layers: NormalizationLayers, positions: int) -> None:
        self._layers, self._positions = layers, positions
        self._number = 0
        self._seen: dict[int, tuple[Tensor, Tensor]] = {}
        self._handles = [
            module.register_forward_pre_hook(partial(self._observe, index))
            for index, module in enumerate(layers.modules)
        ]

    def start(self, number: int) -> None:
        """Forget the chunk before."""
        self._number = number
        self._seen.clear()

    def _observe(self, index: int, module: nn.Module, inputs: tuple[Any]) -> None:
        x = inputs[0]
        grids = [
            sample_grid(x[i : i + 1], self._positions, self._number + i + 1).flatten(0, -2)
            for i in range(len(x))
        ]
        variance, mean = torch.var_mean(torch.cat(grids), 0)  # [values, channels]; unbiased
        self._seen[index] = mean, variance

    def estimate(self, frames: Tensor, current: Statistics) -> Statistics:
        """The pooled statistics of all frames of the chunk."""
        parts = [self._seen[index] for index in range(len(self._layers.modules))]
        return Statistics(torch.cat([m for m, _ in parts]), torch.cat([v for _, v in parts]))

    def close(self) -> None:
        """Stop listening."""
        for handle in self._handles:
            handle.remove()


def verify(
    model: nn.Module, frames: Frames, order: np.ndarray, config: OndaConfig
) -> dict[str, int]:
    """Count the frames that the replay and `Onda`, frame by frame, predict alike."""
    fast = replay(model, frames, order, config)
    layers = NormalizationLayers(model)
    source = layers.read()
    onda = Onda(model, config)
    try:
        slow = [int(onda.predict(frames(order[i : i + 1])).argmax()) for i in range(len(order))]
    finally:
        onda.close()
        layers.write(source)
    return {"frames": len(order), "predicted_alike": int((fast == np.array(slow)).sum())}


@torch.no_grad()
def re_estimate(model: nn.Module, frames: Frames, order: np.ndarray, size: int = 64) -> Statistics:
    """Statistics of a whole domain: those of batches, as in training, averaged."""
    layers = NormalizationLayers(model)
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
        parts = [model(frames(order[i : i + 50])).argmax(1) for i in range(0, len(order), 50)]
    finally:
        layers.write(source)
    return torch.cat(parts).cpu().numpy()
