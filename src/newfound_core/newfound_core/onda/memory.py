# SPDX-License-Identifier: Apache-2.0
"""Which frames an update is estimated from: the latest, or a balanced choice."""

import math
import random
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any


@dataclass
class Observation:
    """A frame that counted: the estimator's sample of it, and what the network said of it."""

    sample: Any
    label: int = 0
    uncertainty: float = 0.0  # entropy of the prediction, 0 to 1
    age: int = 0  # frames that counted since


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


class BalancedMemory:
    """Keeps an equal share for every predicted class; the old and the uncertain go first.

    The memory of RoTTA: a robot that stares at one object fills that object's share only.
    """

    def __init__(self, size: int, classes: int, seed: int = 0) -> None:
        self._size, self._share = size, max(1, size // max(1, classes))
        self._kept: list[Observation] = []
        self._random = random.Random(seed)

    def __len__(self) -> int:
        return len(self._kept)

    def count(self) -> Counter[int]:
        """How many observations of each class are kept."""
        return Counter(kept.label for kept in self._kept)

    def add(self, observation: Observation, limit: int) -> None:
        """Keep it if it has room or is better than what it would replace."""
        for kept in self._kept:
            kept.age += 1
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
