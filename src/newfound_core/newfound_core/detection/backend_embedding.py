# SPDX-License-Identifier: Apache-2.0
"""Features of crops by a back end: PyTorch, torch.compile or ONNX Runtime.

Crops are small and several. On a CPU, ONNX Runtime is done with them sooner if each core takes
some of them than if all cores share every layer: with two cores, in three quarters of the time.
"""

import functools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from newfound_core.backbones import Backbone
from newfound_core.inference import InferenceConfig, build_inference
from newfound_core.models import LoadedModel
from newfound_core.onnx_runtime import MAX_BATCH

_WARM_UP = (2, 3)  # crops: torch.compile makes code for any number once it has met two


class BackendEmbedder:
    """An `Embedder` that runs the network of an open-world model, without its head.

    Crops of a frame go through together. Making one takes seconds with `compile` and `onnx`,
    so it belongs where knowledge is loaded, not between two frames.
    """

    def __init__(self, loaded: LoadedModel, config: InferenceConfig) -> None:
        backbone = loaded.model.backbone
        assert isinstance(backbone, Backbone)
        self._dimension = backbone.feature_dim
        self._cores = 1
        on_cpu = loaded.device.type == "cpu" and config.execution_provider in ("auto", "cpu")
        if config.backend == "onnx" and on_cpu:
            self._cores = config.threads or torch.get_num_threads()
            config = replace(config, threads=1)
        self.inference = build_inference(replace(loaded, model=backbone), config)
        if config.backend == "compile":
            for count in _WARM_UP:
                self([np.zeros((48, 64, 3), np.uint8)] * count)

    @torch.inference_mode()
    def __call__(self, crops: Sequence[np.ndarray]) -> Tensor:
        """The network's features [N, D] of crops, uint8 [h, w, 3] each."""
        parts = [
            self.run(self.inference.prepare(crops[start : start + MAX_BATCH]))
            for start in range(0, len(crops), MAX_BATCH)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, self._dimension)

    def run(self, batch: Tensor) -> Tensor:
        """The features of crops that are prepared."""
        first, *others = batch.tensor_split(min(self._cores, len(batch)))
        found = [_pool().submit(self.inference.run, part) for part in others]
        return torch.cat([self.inference.run(first), *(part.result() for part in found)])

    def stored(self, crops: Sequence[np.ndarray]) -> Tensor:
        """The same for stored views."""
        return self(crops)


@functools.cache  # one for the process: knowledge comes and goes
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), "crops")
