# SPDX-License-Identifier: Apache-2.0
"""The experiments on one pair, each kept in a small file as soon as it is done.

An interrupted run goes on with the first one that has no file.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from newfound_core.models import LoadedModel
from newfound_core.onda import OndaConfig
from newfound_training.data import Pixels
from newfound_training.online.replay import predict_with, re_estimate, replay, verify
from newfound_training.running.files import read_json, write_json
from newfound_training.source.task import to_device

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Target:
    """A model and the domain that it is to meet."""

    source: str
    target: str
    loaded: LoadedModel
    pixels: Pixels  # of the target alone
    folder: Path  # for the files
    seed: int

    def frames(self, indices: np.ndarray) -> Tensor:
        """Prepared images."""
        images = self.loaded.metadata.preprocessing.batch([self.pixels[i] for i in indices])
        return to_device(images, self.loaded.device)

    @property
    def labels(self) -> np.ndarray:
        """The true classes."""
        return self.pixels.images.labels

    def order(self, number: int) -> np.ndarray:
        """A shuffling of the target; the same for all methods."""
        return np.random.default_rng([self.seed, 5, number]).permutation(len(self.pixels))

    def bounds(self) -> dict[str, np.ndarray]:
        """Which images are recognised without adapting, and with the target's own statistics."""
        return {"source_only": self._source_only(), "re_estimated": self._re_estimated()}

    def _source_only(self) -> np.ndarray:
        def compute() -> np.ndarray:
            everything = np.arange(len(self.pixels))
            return predict_with(self.loaded.model, None, self.frames, everything) == self.labels

        return self._kept("source_only", compute)

    def _re_estimated(self) -> np.ndarray:
        def compute() -> np.ndarray:
            model = self.loaded.model
            shuffled = np.random.default_rng([self.seed, 6]).permutation(len(self.pixels))
            statistics = re_estimate(model, self.frames, shuffled)
            everything = np.arange(len(self.pixels))
            return predict_with(model, statistics, self.frames, everything) == self.labels

        return self._kept("re_estimated", compute)

    def stream(self, config: OndaConfig, number: int) -> np.ndarray:
        """Which frames of one order ONDA recognises, in the order of the stream."""

        def compute() -> np.ndarray:
            order = self.order(number)
            predicted = replay(self.loaded.model, self.frames, order, config)
            return predicted == self.labels[order]

        name = f"{config.estimator}-{config.momentum}-{config.frames_per_update}-order{number}"
        return self._kept(name, compute)

    def verification(self, config: OndaConfig, frames: int) -> dict[str, int]:
        """How the fast replay compares with ONDA itself."""
        path = self._path(f"verification-{config.estimator}")
        if not path.exists():
            write_json(
                path, verify(self.loaded.model, self.frames, self.order(0)[:frames], config)
            )
        return read_json(path)

    def _path(self, name: str) -> Path:
        return self.folder / f"{self.source}-{self.target}" / f"{name}.json"

    def _kept(self, name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
        path = self._path(name)
        if not path.exists():
            correct = compute()
            write_json(path, {"correct": "".join("01"[int(c)] for c in correct)})
            _log.info("%s > %s, %s: %.1f %%", self.source, self.target, name, 100 * correct.mean())
        return np.array([c == "1" for c in read_json(path)["correct"]])
