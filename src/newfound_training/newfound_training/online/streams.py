# SPDX-License-Identifier: Apache-2.0
"""The streams of one pair of domains, each kept in a small file as soon as it is done.

An interrupted run goes on with the first one that has no file. A sweep varies alpha or n_t, as in
the thesis's figure.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from newfound_core.models import LoadedModel
from newfound_core.onda import OndaConfig
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.storage import read_json, write_json
from newfound_training.data import Pixels
from newfound_training.online.options import OnlineOptions
from newfound_training.online.replay import predict_with, re_estimate, replay, verify
from newfound_training.source import to_device

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
    passes: int = 1  # times that a stream shows every image

    def frames(self, indices: np.ndarray) -> Tensor:
        """Prepared images."""
        images = self.loaded.metadata.preprocessing.batch([self.pixels[i] for i in indices])
        return to_device(images, self.loaded.device)

    @property
    def labels(self) -> np.ndarray:
        """The true classes."""
        return self.pixels.images.labels

    def order(self, number: int) -> np.ndarray:
        """A shuffling of the target, another one in each pass; the same for all methods."""
        generator = np.random.default_rng([self.seed, 5, number])
        return np.concatenate(
            [generator.permutation(len(self.pixels)) for _ in range(self.passes)]
        )

    def bounds(self) -> dict[str, np.ndarray]:
        """Images recognised without adapting, and with the target's own statistics."""
        predicted = {"source_only": self.source_only(), "re_estimated": self.re_estimated()}
        return {name: classes == self.labels for name, classes in predicted.items()}

    def source_only(self) -> np.ndarray:
        """The class predicted for each image without adapting."""

        def compute() -> np.ndarray:
            everything = np.arange(len(self.pixels))
            return predict_with(self.loaded.model, None, self.frames, everything)

        return self._kept("source_only", compute, self.labels)

    def re_estimated(self) -> np.ndarray:
        """The class predicted for each image with the statistics of all of them."""

        def compute() -> np.ndarray:
            model = self.loaded.model
            shuffled = np.random.default_rng([self.seed, 6]).permutation(len(self.pixels))
            statistics = re_estimate(model, self.frames, shuffled)
            return predict_with(model, statistics, self.frames, np.arange(len(self.pixels)))

        return self._kept("re_estimated", compute, self.labels)

    def predictions(self, config: OndaConfig, number: int) -> np.ndarray:
        """The class that ONDA predicts for each frame of one order, in that order."""
        settled = "" if config.settled_momentum is None else f"to{config.settled_momentum}"
        speed = f"{config.momentum}{settled}-{config.frames_per_update}"
        name = f"{config.estimator}-{speed}-order{number}"
        return self.replayed(name, config, self.order(number))

    def replayed(self, name: str, config: OndaConfig, order: np.ndarray) -> np.ndarray:
        """The class that ONDA predicts for each frame in this order, kept under a name.

        The file's name also tells the options, so that others are computed anew.
        """

        def compute() -> np.ndarray:
            return replay(self.loaded.model, self.frames, order, config)

        layers = NormalizationLayers(self.loaded.model, config.layers).layers
        options = json.dumps(asdict(config) | {"layers": layers}, sort_keys=True)
        digest = hashlib.sha256(options.encode()).hexdigest()[:8]
        return self._kept(f"{name}-{digest}", compute, self.labels[order])

    def stream(self, config: OndaConfig, number: int) -> np.ndarray:
        """Frames of one order that ONDA recognises, in the order of the stream."""
        return self.predictions(config, number) == self.labels[self.order(number)]

    def verification(self, config: OndaConfig, order: np.ndarray, name: str) -> dict[str, int]:
        """Comparison of the fast replay with ONDA itself."""
        path = self._path(f"verification-{name}")
        if not path.exists():
            write_json(path, verify(self.loaded.model, self.frames, order, config))
        return read_json(path)

    def _path(self, name: str) -> Path:
        return self.folder / f"{self.source}-{self.target}" / f"{name}.json"

    def _kept(
        self, name: str, compute: Callable[[], np.ndarray], labels: np.ndarray
    ) -> np.ndarray:
        path = self._path(name)
        if not path.exists():
            predicted = compute()
            write_json(path, {"predicted": " ".join(map(str, predicted))})
            accuracy = 100 * (predicted == labels).mean()
            _log.info("%s > %s, %s: %.1f %%", self.source, self.target, name, accuracy)
        return np.array([int(c) for c in read_json(path)["predicted"].split()])


Streams = dict[str, dict[float, list[np.ndarray]]]  # option, value, orders


def sweep_streams(target: Target, options: OnlineOptions) -> Streams:
    """Streams with one of the two options varied and the other at its value."""
    base = options.onda(options.sweep_estimator)
    varied: dict[str, tuple[Any, ...]] = {
        "momentum": options.sweep_momentum,
        "frames_per_update": options.sweep_frames,
    }
    return {
        name: {
            value: [
                target.stream(replace(base, **{name: value}), number)
                for number in range(options.sweep_orders)
            ]
            for value in values
        }
        for name, values in varied.items()
    }
