# SPDX-License-Identifier: Apache-2.0
"""Class means that follow the light, beside a stream of frames: a thread, and a file.

Frames are judged by the knowledge as it was last served; the shift is estimated, and the means
moved, in a thread of their own.
"""

import base64
import hashlib
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from newfound_core.detection.detector import Detection
from newfound_core.detection.light_shift import (
    MEAN_BASED,
    LightShift,
    LightShiftConfig,
    LightShiftStatus,
    moved_knowledge,
)
from newfound_core.errors import CheckpointError
from newfound_core.knowledge.contents import LIGHT_NAME, Knowledge

_log = logging.getLogger(__name__)
_SAVE_EVERY = 60  # calls of `tick`, which come once a second


@dataclass(frozen=True)
class LightReport:
    """Where following the light is."""

    state: str  # off, frozen or adapting
    problem: str  # a sentence, or empty
    status: LightShiftStatus


class LightFollower:
    """Serves knowledge whose learned classes follow the light; state is kept below `root`."""

    def __init__(self, root: Path, knowledge: Knowledge, config: LightShiftConfig) -> None:
        self._path, self.config = root / LIGHT_NAME, config
        self._shift = LightShift(knowledge.model.head.dimension, config)
        self._on, self._problem = False, ""
        self._network = ""
        self._knowledge = self._moved = knowledge
        self._lock = threading.Lock()  # held while knowledge and its moved form change together
        self._executor = ThreadPoolExecutor(1, "light")
        self._pending: Future[None] | None = None
        self._saved, self._ticks = 0, 0
        self._restore(knowledge)
        self.use(knowledge)

    def _restore(self, knowledge: Knowledge) -> None:
        self._network = network_digest(knowledge)
        try:
            if self._path.exists():
                self._shift.restore(self._path, self._network)
        except CheckpointError as error:
            _log.warning("saved adaptation ignored: %s", error)

    # Frames: one thread.

    def serve(self, knowledge: Knowledge) -> Knowledge:
        """The knowledge as it judges a frame now."""
        with self._lock:
            follows = self._on and knowledge is self._knowledge
            return self._moved if follows else knowledge

    def observe(self, knowledge: Knowledge, detections: Sequence[Detection]) -> None:
        """Learn from what was found in a frame."""
        if not self._on or not detections or not _mean_based(knowledge):
            return
        features = np.stack([d.embedding * d.length for d in detections])
        due = self._shift.observe(torch.from_numpy(features))
        if due and (self._pending is None or self._pending.done()):
            self._pending = self._executor.submit(self._update, knowledge)

    def _update(self, knowledge: Knowledge) -> None:
        try:
            if self._shift.update(knowledge):
                self._move(knowledge)
            self._problem = ""
        except Exception as error:  # frames go on with the means that are
            _log.exception("following the light failed")
            self._problem = f"following the light fails: {error!r}"

    def _move(self, knowledge: Knowledge) -> None:
        moved = moved_knowledge(knowledge, self._shift.value)
        with self._lock:
            if knowledge is self._knowledge:
                self._moved = moved

    # Any thread.

    def use(self, knowledge: Knowledge) -> None:
        """Other knowledge is about to be used; with another network, all begins anew."""
        network = network_digest(knowledge)
        if network != self._network:
            self._network = network
            self._shift.reset()
        followed = _mean_based(knowledge) and bool(knowledge.learned_in)
        moved = moved_knowledge(knowledge, self._shift.value) if followed else knowledge
        with self._lock:
            self._knowledge, self._moved = knowledge, moved

    def switch(self, on: bool) -> None:
        """Let learned classes follow, or serve them as they were learned."""
        self._on = on

    def freeze(self, frozen: bool) -> None:
        """Keep the shift as it is, or follow again."""
        self._shift.freeze(frozen)

    def reset(self) -> None:
        """Serve learned classes as they were learned, and begin anew."""
        self._shift.reset()
        self.use(self._knowledge)

    def shift(self) -> Tensor | None:
        """The shift of the present light; None while nothing follows."""
        return self._shift.value if self._on else None

    def report(self) -> LightReport:
        """For messages and diagnostics."""
        status, problem = self._shift.status(), self._problem
        if self._on and not _mean_based(self._knowledge):
            method = self._knowledge.loaded.metadata.method
            return LightReport("off", f"classes of {method} cannot follow the light", status)
        state = "frozen" if status.frozen else "adapting"
        return LightReport(state if self._on else "off", problem, status)

    def tick(self) -> None:
        """Once a second: now and then, have the shift saved."""
        self._ticks += 1
        if self._ticks % _SAVE_EVERY == 0 and self._shift.status().updates != self._saved:
            self._executor.submit(self._save)

    def close(self) -> None:
        """End the thread, and save."""
        self._executor.shutdown()
        if self._shift.status().updates != self._saved:
            self._save()

    def _save(self) -> None:
        updates = self._shift.status().updates
        try:
            self._shift.save(self._path, self._network)
            self._saved = updates
        except OSError as error:
            _log.warning("adaptation not saved: %s", error)


def network_digest(knowledge: Knowledge) -> str:
    """A key that changes with the network and with the way images enter it."""
    digest = hashlib.sha256(repr(knowledge.loaded.metadata.preprocessing).encode())
    for name, tensor in knowledge.model.backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def encode_shift(shift: Tensor | None) -> str:
    """A shift as the text of a job; empty without one."""
    if shift is None:
        return ""
    return base64.b64encode(shift.float().contiguous().numpy().tobytes()).decode()


def decode_shift(text: str, dimension: int) -> Tensor:
    """The shift of a job; none if it has none that fits the network."""
    try:
        values = np.frombuffer(base64.b64decode(text, validate=True), np.float32)
    except ValueError:
        values = np.zeros(0, np.float32)
    fits = values.shape == (dimension,) and bool(np.isfinite(values).all())
    return torch.from_numpy(values.copy()) if fits else torch.zeros(dimension)


def _mean_based(knowledge: Knowledge) -> bool:
    return knowledge.loaded.metadata.method in MEAN_BASED
