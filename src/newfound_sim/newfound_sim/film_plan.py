# SPDX-License-Identifier: Apache-2.0
"""What has to be rendered for a scenario: moments that look the same are rendered once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from newfound_sim.scenario import Exposure, Scenario


@dataclass(frozen=True)
class Picture:
    """One JPEG of a clip: renderings, by number, with their weights, and which take it is."""

    mixture: tuple[tuple[int, float], ...]
    take: int  # pictures of the same mixture differ in the sensor's noise


@dataclass(frozen=True)
class Plan:
    """What has to be made for a clip, and which frame shows what."""

    exposures: tuple[Exposure, ...]
    pictures: tuple[Picture, ...]
    frames: tuple[int, ...]  # the number of the picture that each frame shows

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """The exposures that more than one picture needs; they are kept while filming."""
        uses = Counter(number for p in self.pictures for number, _ in p.mixture)
        return tuple(number for number, count in sorted(uses.items()) if count > 1)


def plan_film(scenario: Scenario, takes: int) -> Plan:
    """Find the moments that look the same; while nothing happens, `takes` pictures alternate."""
    exposures: dict[Exposure, int] = {}
    pictures: dict[Picture, int] = {}
    shown: Counter[tuple] = Counter()
    frames = []
    for frame in range(scenario.frames):
        mixture = tuple(
            (exposures.setdefault(exposure, len(exposures)), weight)
            for exposure, weight in scenario.exposures_at(frame / scenario.filming.rate).items()
        )
        picture = Picture(mixture, shown[mixture] % takes)
        shown[mixture] += 1
        frames.append(pictures.setdefault(picture, len(pictures)))
    return Plan(tuple(exposures), tuple(pictures), tuple(frames))
