# SPDX-License-Identifier: Apache-2.0
"""Estimator `batch`: a second pass of the frames, normalised by their own statistics."""

import copy
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from newfound_core.onda.estimate import Estimate
from newfound_core.onda.folding import FoldedNetwork
from newfound_core.onda.layers import NormalizationLayers, Statistics
from newfound_core.onda.streaming import mean_assignment


class BatchEstimator:
    """Runs frames through a twin of the network whose normalisation works as in training.

    The twin shares the network's parameters but has its own statistics, so it can run in
    another thread while the network serves. Only its normalisation layers are in training
    mode: dropout and everything else behave as in prediction.
    """

    def __init__(self, layers: NormalizationLayers) -> None:
        shared: dict[int, Any] = {id(p): p for p in layers.network.parameters()}
        self._twin = copy.deepcopy(layers.network, shared)
        self._layers = NormalizationLayers(self._twin)
        self._lock = threading.Lock()
        self._frame: Tensor | None = None
        self._weights: dict[int, Tensor | float] = {}
        for index, module in enumerate(self._layers.modules):
            # With momentum 1 the running statistics become those of the batch, unbiased with
            # the layer's own number of values.
            module.training, module.momentum = True, 1.0
            module.register_forward_pre_hook(partial(self._note, index))

    def start(self, frame: Tensor) -> None:
        """Keep the frame; the caller may reuse its memory."""
        self._frame = frame.detach().clone()

    def finish(self) -> Tensor | None:
        """The frame that was kept."""
        frame, self._frame = self._frame, None
        return frame

    def _note(self, index: int, module: nn.Module, inputs: tuple[Any]) -> None:
        self._weights[index] = mean_assignment(module)

    @torch.no_grad()
    def estimate(self, samples: Sequence[Tensor], current: Statistics) -> Estimate:
        """Statistics of the frames in one pass; safe beside passes of the network itself."""
        frames = torch.cat([s for s in samples if s.shape == samples[-1].shape])
        if len(frames) < 2:  # the camera has just changed its format
            return Estimate(current, torch.zeros_like(current.mean))
        if frames.dim() == 4:
            # On a CPU, normalisation with batch statistics is several times faster this way.
            frames = frames.contiguous(memory_format=torch.channels_last)
        with self._lock:
            self._layers.write(current)
            self._weights.clear()
            self._twin(frames)
            share = self._layers.per_domain(self._weights, like=current.mean)
            return Estimate(self._layers.read(), share[self._layers.row_group])

    def serve_with(self, folded: FoldedNetwork) -> None:
        """Nothing changes: the twin normalises by itself."""

    def close(self) -> None:
        """Nothing was changed in the network itself."""
