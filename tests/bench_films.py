# SPDX-License-Identifier: Apache-2.0
"""Which simulated objects are taught, and films of the bench in which a robot meets others.

The shipped models of the bench know `KNOWN`. Settings were chosen with `CHOICE` as unknown
things; results are reported for `HELD_OUT`, which nothing was trained on or chosen by.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newfound_sim.arranging import arrange
from newfound_sim.dataset_request import stream
from newfound_sim.film import FilmOptions, film
from newfound_sim.scenario import CameraMove, Filming, LightChange, Stay, WorkbenchScenario
from newfound_sim.workbench import CameraPose

KNOWN = (
    "claw_hammer", "mallet", "combination_pliers", "needle_nose_pliers", "flat_screwdriver",
    "stubby_screwdriver", "wrench", "scissors", "banana", "bottle", "can", "mug", "apple", "book",
    "fork", "clamp",
)  # fmt: skip
CHOICE = ("bowl", "funnel", "pear", "padlock", "paint_brush", "marker")
HELD_OUT = ("teapot", "tape_roll", "flashlight", "carrot", "ball", "light_bulb")
SECONDS, RATE = 6.0, 2.0  # twelve frames, each from another side
PER_FILM = 3  # new things on one table, beside as many known ones
_EYES = {
    "meeting": ((-0.27, -0.40, 0.44), (0.27, -0.42, 0.47)),
    "later": ((0.20, -0.38, 0.50), (-0.20, -0.44, 0.41)),
}


@dataclass(frozen=True)
class Films:
    """Clips of the same new things: when they are met, and later, lying elsewhere."""

    meeting: tuple[Path, ...]
    later: tuple[Path, ...]  # in the second half the light has changed


def make_films(
    folder: Path, strange: tuple[str, ...], samples: int = 4, workers: int = 1
) -> Films:
    """Film what is missing; each table has a background of its own."""
    found: dict[str, list[Path]] = {"meeting": [], "later": []}
    for number, first in enumerate(range(0, len(strange), PER_FILM)):
        new = strange[first : first + PER_FILM]
        for occasion, clips in found.items():
            clips.append(folder / f"{occasion}_{number}")
            scenario = scenario_of(occasion, number, new, samples)
            film(scenario, clips[-1], FilmOptions(takes=1), workers)
    return Films(tuple(found["meeting"]), tuple(found["later"]))


def scenario_of(
    occasion: str, number: int, new: tuple[str, ...], samples: int
) -> WorkbenchScenario:
    """New things and some known ones on a table that the camera passes by."""
    rng = stream("bench", occasion, number, *new)
    known = [str(label) for label in rng.choice(KNOWN, PER_FILM, replace=False)]
    # The new things are the same ones on both occasions, the known ones are any.
    seeds = [int(stream("bench", label).integers(2**31)) for label in new]
    seeds += [int(seed) for seed in rng.integers(2**31, size=len(known))]
    things = _all_placed(rng, [*new, *known], seeds)
    begin, end = (CameraPose(eye, (0.0, 0.02, 0.0)) for eye in _EYES[occasion])
    changes = (LightChange(SECONDS / 2, SECONDS / 2, "directed"),) if occasion == "later" else ()
    return WorkbenchScenario(
        Filming(RATE, 480, 360, seed=number, samples=samples),
        SECONDS,
        "webcam",
        ("brown", "white")[number % 2],
        "artificial",
        begin,
        tuple(Stay(thing, 0.0, SECONDS) for thing in things),
        changes,
        (CameraMove(0.0, SECONDS, end),),
    )


def _all_placed(rng: np.random.Generator, labels: list[str], seeds: list[int]):
    while len(placed := arrange(rng, labels, seeds)) < len(labels):
        pass
    return placed
