# SPDX-License-Identifier: Apache-2.0
"""Class means that follow the light: ONDA's moving statistics, taken at the embedding.

ONDA (M. Mancini et al., IROS 2018, arXiv:1807.01028; thesis 2.6.3) normalises by statistics that
follow the stream. Those of the network's own layers say as much about the few objects on a table
as about the light. So the statistic here is taken around the classes: another light moves the
embeddings f of all objects by about the same vector. With a mean m_c that was learned in a light
of shift s_c, an object of class c is seen in a light of shift s at

    f = m_c - s_c + s + noise

The shift s is the mean, over the learned classes recognised in the latest frames, of the mean of
f - m_c + s_c. Recognition depends on s, so both are repeated a few times, from no shift on: an
error does not outlast the frames it came from. Learned classes are then served with the means

    m_c - s_c + s

Shipped classes stay where they are, because they were trained in many lights, and so do network,
thresholds and memory: stored features are what the network makes of stored images at any time.
"""

import copy
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional

from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.knowledge.contents import Knowledge, read_vectors
from newfound_core.open_world.head import OpenWorldHead
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.storage import write_bytes

FORMAT = "newfound light shift 1"
# Heads that decide by means.
MEAN_BASED = frozenset({"ncm", "nno", "deepnno", "bdoc", "ridge_lda"})
_REPEATS = 3  # of recognition and estimate; with more the result is the same
_SAME_VIEW = 0.995  # cosine of two views of an object from which the second tells nothing new


@dataclass(frozen=True)
class LightShiftConfig:
    """How fast the shift follows, and what it takes."""

    window: int = 16  # latest frames that count
    frames_per_update: int = 5
    min_frames: int = 10  # in the window
    min_classes: int = 2  # learned classes recognised in it: one says more of itself than of light

    def __post_init__(self) -> None:
        checks = {
            "window must be at least min_frames": self.window >= self.min_frames,
            "min_frames must be at least 1": self.min_frames >= 1,
            "frames_per_update must be at least 1": self.frames_per_update >= 1,
            "min_classes must be at least 1": self.min_classes >= 1,
        }
        if broken := [rule for rule, holds in checks.items() if not holds]:
            raise ConfigError(f"{'; '.join(broken)}; got {self}")


@dataclass(frozen=True)
class LightShiftStatus:
    """Counters and the shift itself."""

    frames: int = 0
    redundant: int = 0  # of these, not used: every object was seen like this in the last one
    updates: int = 0
    classes: int = 0  # learned classes behind the last update
    length: float = 0.0  # of the shift, as a share of an embedding's
    frozen: bool = False


def moved_head(head: OpenWorldHead, offsets: Mapping[str, Tensor]) -> OpenWorldHead:
    """A head whose means of some classes are moved; all other tensors are shared."""
    shared = {id(tensor): tensor for tensor in head.buffers()}
    moved = copy.deepcopy(head, shared)
    means = head.means.value.clone()
    for label, offset in offsets.items():
        means[head.labels.index(label)] += offset.to(means)
    moved.means.value = means
    return moved


def moved_knowledge(knowledge: Knowledge, shift: Tensor) -> Knowledge:
    """The knowledge as it is served in a light of this shift."""
    model = knowledge.model
    offsets = {label: shift - at for label, at in knowledge.learned_in.items()}
    moved = OpenWorldModel(model.backbone, moved_head(model.head, offsets), model.embedding)
    return replace(knowledge, loaded=replace(knowledge.loaded, model=moved.eval()))


@torch.no_grad()
def estimate_shift(
    knowledge: Knowledge, features: Tensor, min_classes: int
) -> tuple[Tensor, int] | None:
    """The shift that features [N, D] were seen with, and how many classes say so.

    None if fewer than `min_classes` learned classes are recognised.
    """
    head, learned_in = knowledge.model.head, knowledge.learned_in
    moving = {head.labels.index(label): at.to(features) for label, at in learned_in.items()}
    shift, found = torch.zeros_like(features[0]), None
    for _ in range(_REPEATS):
        served = moved_head(head, {label: shift - at for label, at in learned_in.items()})
        label = served.decide(features).label.tolist()
        rows = {c: [n for n, decided in enumerate(label) if decided == c] for c in moving}
        seen = {c: features[own].mean(0) for c, own in rows.items() if own}
        if len(seen) < min_classes:
            return found
        means = head.means.value
        shift = torch.stack([f - means[c].to(f) + moving[c] for c, f in seen.items()]).mean(0)
        found = shift, len(seen)
    return found


class LightShift:
    """The shift of the present light, from the features of the latest frames.

    `observe` is for the thread of the frames and takes microseconds; `update` may run in any.
    """

    def __init__(self, dimension: int, config: LightShiftConfig | None = None) -> None:
        self.config = config or LightShiftConfig()
        self._lock = threading.Lock()
        self._window: deque[Tensor] = deque(maxlen=self.config.window)
        self._since = 0
        self._generation = 0  # an estimate made before a reset must not be used after it
        self.value = torch.zeros(dimension)
        self._status = LightShiftStatus()

    def observe(self, features: Tensor) -> bool:
        """Remember the features [N, D] of a frame; whether an update is due."""
        with self._lock:
            status = self._status
            self._status = replace(status, frames=status.frames + 1)
            if status.frozen or not len(features) or not bool(torch.isfinite(features).all()):
                return False
            if self._window and _same_views(features, self._window[-1]):
                self._status = replace(self._status, redundant=status.redundant + 1)
                return False
            self._window.append(features.clone())
            self._since += 1
            due = self._since >= self.config.frames_per_update
            return due and len(self._window) >= self.config.min_frames

    def update(self, knowledge: Knowledge) -> bool:
        """Estimate the shift anew; whether it changed."""
        with self._lock:
            features, generation = list(self._window), self._generation
            self._since = 0
        if not features or not knowledge.learned_in:
            return False
        found = estimate_shift(knowledge, torch.cat(features), self.config.min_classes)
        with self._lock:
            if found is None or self._status.frozen or generation != self._generation:
                return False
            self.value, classes = found[0].cpu(), found[1]
            scale = float(features[-1].norm(dim=1).mean().clamp_min(1e-12))
            self._status = replace(
                self._status,
                updates=self._status.updates + 1,
                classes=classes,
                length=float(self.value.norm()) / scale,
            )
            return True

    def status(self) -> LightShiftStatus:
        """The counters."""
        with self._lock:
            return self._status

    def freeze(self, frozen: bool) -> None:
        """Keep the shift as it is, or follow again."""
        with self._lock:
            self._status = replace(self._status, frozen=frozen)
            self._forget()

    def reset(self) -> None:
        """No shift, as the network was trained; frames gathered so far are forgotten."""
        with self._lock:
            self.value = torch.zeros_like(self.value)
            self._status = replace(self._status, length=0.0, classes=0)
            self._forget()

    def _forget(self) -> None:
        self._window.clear()
        self._since = 0
        self._generation += 1

    def save(self, path: Path, network: str) -> None:
        """Write the shift in one step; `network` says which one it belongs to."""
        content = save({"shift": self.value.contiguous()}, {"format": FORMAT, "network": network})
        write_bytes(path, content)

    def restore(self, path: Path, network: str) -> None:
        """Go on from a saved shift; one of another network is a `CheckpointError`."""
        vectors, metadata = read_vectors(path, len(self.value))
        if metadata.get("format") != FORMAT or set(vectors) != {"shift"}:
            raise CheckpointError(f"{path} is no {FORMAT!r}: delete it to start without a shift")
        if metadata.get("network") != network:
            raise CheckpointError(
                f"{path} belongs to another network: the shift of its embeddings says nothing "
                "about this one. It starts without a shift"
            )
        with self._lock:
            self.value = vectors["shift"]
            self._forget()


def _same_views(features: Tensor, last: Tensor) -> bool:
    """Whether every object looks as one of the last frame."""
    cosine = functional.normalize(features, dim=1) @ functional.normalize(last, dim=1).T
    return bool((cosine.max(1).values >= _SAME_VIEW).all())
