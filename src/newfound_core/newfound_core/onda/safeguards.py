# SPDX-License-Identifier: Apache-2.0
"""What keeps adaptation from following the wrong thing; all of it beyond the thesis.

`BalancedMemory` draws frames evenly over predicted classes and drops the old and the uncertain
(L. Yuan, B. Xie, S. Li, "Robust Test-Time Adaptation in Dynamic Scenarios", CVPR 2023,
arXiv:2303.13899). `RedundancyFilter` skips near-duplicates. `watch.py` decides
whether to adapt at all.

`Settling` lets the momentum fall while the stream stays as it is, and return when it changes. A
constant momentum averages over the last few updates only, so the statistics never come to rest:
their noise is that of 2 / momentum updates. Where the stream is of one domain, the mean over all
updates is the better estimate. So once the source is mostly forgotten, after 2 / momentum
updates, the momentum falls as it does in a mean over ever more of them:

    momentum / (1 + momentum t),     t = 0, 1, 2, …

down to `settled_momentum`, so that a slow change is still seen. A sudden one shows as frames
that differ from the statistics by a multiple of what is usual: all begins again.
"""

import math
import random
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from newfound_core.errors import ConfigError
from newfound_core.onda.config import OndaConfig
from newfound_core.onda.estimators import Estimate
from newfound_core.onda.statistics import Statistics


@dataclass
class Observation:
    """A frame that counted: the estimator's sample of it, and what the network said of it."""

    sample: Any
    label: int = 0
    uncertainty: float = 0.0  # entropy of the prediction, 0 to 1
    age: int = 0  # frames that counted since
    appearance: Tensor | None = None  # mean and deviation of each channel, [2 C]
    light: Tensor | None = None  # what of that is not its class's, [2 C]


def appearance(image: Tensor) -> Tensor | None:
    """Mean and deviation of each channel of an image [C, H, W]; None if it is no image."""
    if image.dim() != 3:
        return None
    deviation, mean = torch.var_mean(image.float(), (1, 2))
    return torch.cat([mean, deviation.clamp_min(0).sqrt()]).cpu()


class LatestFrames:
    """The frames since the last update."""

    def __init__(self) -> None:
        self._frames: deque[Observation] = deque()

    def add(self, observation: Observation, limit: int) -> None:
        """Keep it, and at most `limit` in all."""
        self._frames.append(observation)
        while len(self._frames) > limit:
            self._frames.popleft()

    def draw(self, count: int) -> list[Observation]:
        """The latest `count` frames, which are then forgotten."""
        drawn = list(self._frames)[-count:]
        self._frames.clear()
        return drawn

    def clear(self) -> None:
        """Forget all."""
        self._frames.clear()


NEW_LIGHT_FRAMES = 5  # that must agree
OLDER_FRAMES = 10  # that tell how frames differ in one light
NEW_LIGHT = 3.0  # deviations of single frames; a mean over five varies by less than half a one
SMALLEST_DEVIATION = 0.05  # of normalised pixels: a camera that stands still has none
FOLLOWED_BY_LIGHT = 0.1  # of what a frame differs from its class in the present light
FOLLOWED_BY_CLASS = 0.01  # and once a class has been seen often
OFTEN = 10  # frames of a class, before which a difference is the class's


class BalancedMemory:
    """Memory with an equal share for every predicted class; the old and the uncertain go first.

    The memory of RoTTA: a robot that stares at one object fills that object's share only. Frames
    of another light would stay for every class that is not predicted in this one: the memory is
    emptied when the light changes at once, and loses frames that a slow change has left behind.
    """

    def __init__(self, size: int, classes: int, seed: int = 0) -> None:
        self._size, self._share = size, max(1, size // max(1, classes))
        self._kept: list[Observation] = []
        self._latest: deque[Tensor] = deque(maxlen=NEW_LIGHT_FRAMES)
        self._light = Light()
        self._random = random.Random(seed)

    def __len__(self) -> int:
        return len(self._kept)

    def count(self) -> Counter[int]:
        """Number of observations of each class."""
        return Counter(kept.label for kept in self._kept)

    def add(self, observation: Observation, limit: int) -> None:
        """Keep it if it has room or is better than what it would replace."""
        for kept in self._kept:
            kept.age += 1
        if observation.appearance is not None:
            self._latest.append(observation.appearance)
            if self._light_changed():
                self._kept = [kept for kept in self._kept if kept.age < len(self._latest)]
                self._light.clear()
                for kept in self._kept:
                    kept.light = torch.zeros_like(observation.appearance)
            observation.light = self._light.follow(observation.label, observation.appearance)
            self._drop_left_behind()
        counts = self.count()
        if counts[observation.label] >= self._share:
            rivals = {observation.label}
        elif len(self._kept) < self._size:
            rivals = set()
        else:
            rivals = {label for label, n in counts.items() if n == max(counts.values())}
        if rivals:
            candidates = [kept for kept in self._kept if kept.label in rivals]
            worst = max(candidates, key=self._badness)
            if self._badness(worst) < self._badness(observation):
                return
            self._kept = [kept for kept in self._kept if kept is not worst]
        self._kept.append(observation)

    def _light_changed(self) -> bool:
        """Whether the latest frames together lie outside of what the older ones look like."""
        count = len(self._latest)
        older = [k.appearance for k in self._kept if k.age >= count and k.appearance is not None]
        if count < NEW_LIGHT_FRAMES or len(older) < OLDER_FRAMES:
            return False
        variance, mean = torch.var_mean(torch.stack(older), 0)
        unit = variance.sqrt().clamp_min(SMALLEST_DEVIATION)
        apart = (torch.stack(list(self._latest)) - mean) / unit  # [frames, 2 C]
        together = apart.mean(0)
        # Each has its part in that: otherwise the first frame in a very different light would be
        # enough, and the frames before it would be kept as those of the new light.
        least = (apart * together.sign()).amin(0)
        return bool(((together.abs() > NEW_LIGHT) & (least > together.abs() / 2)).any())

    def _drop_left_behind(self) -> None:
        """Drop the frames of a light that has changed slowly since."""
        lights = [kept.light for kept in self._kept if kept.light is not None]
        if not lights or len(lights) < len(self._kept):
            return
        left = self._light.has_left(torch.stack(lights)).tolist()
        self._kept = [kept for kept, gone in zip(self._kept, left, strict=True) if not gone]

    def _badness(self, observation: Observation) -> float:
        return 1 / (1 + math.exp(-observation.age / self._size)) + observation.uncertainty

    def draw(self, count: int) -> list[Observation]:
        """Up to `count` observations, the classes taking turns; they stay in the memory."""
        by_class: dict[int, list[Observation]] = {}
        for kept in self._random.sample(self._kept, len(self._kept)):
            by_class.setdefault(kept.label, []).append(kept)
        drawn: list[Observation] = []
        while len(drawn) < min(count, len(self._kept)):
            for queue in by_class.values():
                if queue and len(drawn) < count:
                    drawn.append(queue.pop())
        return drawn

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
        self._latest.clear()
        self._light.clear()


class Light:
    """How much brighter or otherwise coloured frames are than they were, whatever they show.

    A frame looks like its class, plus the light, plus chance. The light follows what is left when
    the class is taken away, so that a robot that stares at one dark thing does not see dusk.
    """

    def __init__(self) -> None:
        self._classes: dict[int, Tensor] = {}  # their mean appearance in the first light
        self._seen: Counter[int] = Counter()
        self._level: Tensor | None = None
        self._variance: Tensor | None = None  # of chance

    def follow(self, label: int, appearance: Tensor) -> Tensor:
        """The light after a frame, [2 C]."""
        if self._level is None or self._variance is None:
            self._level = torch.zeros_like(appearance)
            self._variance = torch.full_like(appearance, SMALLEST_DEVIATION**2)
        mean = self._classes.setdefault(label, appearance - self._level)
        seen = self._seen[label] = self._seen[label] + 1
        left = appearance - mean - self._level
        self._variance = torch.lerp(self._variance, left.square(), FOLLOWED_BY_LIGHT)
        share = 1 / seen if seen < OFTEN else FOLLOWED_BY_CLASS
        self._classes[label] = mean + share * left
        if seen >= OFTEN:
            self._level = self._level + FOLLOWED_BY_LIGHT * left
        return self._level

    def has_left(self, earlier: Tensor) -> Tensor:
        """Whether the light is another one than it was at each of some times [T, 2 C], [T]."""
        if self._level is None or self._variance is None:
            return torch.zeros(len(earlier), dtype=torch.bool)
        unit = self._variance.sqrt().clamp_min(SMALLEST_DEVIATION)
        return ((self._level - earlier).abs() > NEW_LIGHT * unit).any(1)

    def clear(self) -> None:
        """Begin anew."""
        self._classes.clear()
        self._seen.clear()
        self._level = self._variance = None


THUMBNAIL = 8  # pixels a side


class RedundancyFilter:
    """Filter of frames that look like the last one that counted.

    Compared with that one and not with the previous frame, so slow movement counts in time.
    """

    def __init__(self) -> None:
        self._last: Tensor | None = None

    def is_redundant(self, frame: Tensor, threshold: float) -> bool:
        """Whether the frame adds nothing; if not, it is what later ones are compared with."""
        thumbnail = functional.adaptive_avg_pool2d(frame, THUMBNAIL) if frame.dim() == 4 else frame
        last = self._last
        if last is not None and last.shape == thumbnail.shape:
            difference = float((thumbnail - last).abs().mean())
            if difference < threshold:
                return True
        self._last = thumbnail.detach().clone()
        return False

    def clear(self) -> None:
        """Forget the last frame."""
        self._last = None


HELD = 2.0  # in units of 1 / momentum: then an eighth of the source is left
SURPRISING = 3.0  # times the usual difference
FOLLOWED = 0.2  # how fast the usual difference follows


class Settling:
    """Momentum that falls while the stream stays as it is."""

    def __init__(self) -> None:
        self._updates = 0
        self._usual: float | None = None

    def momentum(self, config: OndaConfig, online: Statistics, estimate: Estimate) -> float:
        """The momentum of an update that is about to be made."""
        if config.settled_momentum is None:
            return config.momentum
        found = difference(online, estimate)
        if self._usual is not None and found > SURPRISING * self._usual:
            self.restart()
        self._usual = found if self._usual is None else _between(self._usual, found, FOLLOWED)
        falling = config.momentum / (1 + max(0.0, config.momentum * self._updates - HELD))
        self._updates += 1
        return max(falling, min(config.settled_momentum, config.momentum))

    def restart(self) -> None:
        """The stream is a new one."""
        self._updates, self._usual = 0, None


class Prior:
    """Momentum after a start from predicted statistics, which stand for some frames.

    An update of n frames, the latest of N since the start, then weighs n / (prior + N), as in a
    mean over all of them, until that falls below the usual momentum. The first comes after half
    as many frames as the others: what a domain really is like is news by then.
    """

    def __init__(self, frames: Tensor | None = None) -> None:
        """`frames` are one number, or one for each row."""
        if frames is not None and not bool((frames.isfinite() & (frames >= 0)).all()):
            raise ConfigError(f"prior_frames must be 0 or more, got {frames.tolist()}")
        self._frames, self._seen = frames, 0.0

    def momentum(self, usual: float, frames: int) -> Tensor | float:
        """The momentum of an update of so many frames, which is about to be made."""
        if self._frames is None:
            return usual
        self._seen += frames
        return (frames / (self._frames + self._seen)).clamp_min(usual)

    def frames_due(self, usual: int) -> int:
        """How many frames the next update is of."""
        return max(2, usual // 2) if self._frames is not None and not self._seen else usual

    def restart(self) -> None:
        """The statistics are the predicted ones again."""
        self._seen = 0.0


def difference(online: Statistics, estimate: Estimate) -> float:
    """Distance of an estimate's means from the statistics in use, 0 to 1, over all rows.

    d^2 / (variance + d^2) is bounded: a channel that hardly varies cannot outweigh all others.
    """
    squared = (estimate.statistics.mean - online.mean).square()
    rows = squared / (online.variance + squared).clamp(min=1e-12)
    share = estimate.share.expand_as(rows)
    return float((share * rows).sum() / share.sum().clamp(min=1e-12))


def _between(a: float, b: float, share: float) -> float:
    return a + share * (b - a)
