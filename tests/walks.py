# SPDX-License-Identifier: Apache-2.0
"""Walks through all kinds of rooms of a building, filmed once."""

import random
from pathlib import Path

import yaml

from newfound_sim.film import FilmOptions, film
from newfound_sim.rooms.names import CATEGORIES, LIGHTINGS
from newfound_sim.scenario_file import load_scenario

RATE = 2.0  # Hz: neighbouring frames of a faster film show nothing new
STAY = 4.0  # s in a room, half of it in the corridor between two


def scenario(building: str, number: int) -> dict:
    """One walk: every kind of room in an order of its own, in the light whose turn it is."""
    rooms = [name for name in CATEGORIES if name != "corridor"]
    random.Random(number).shuffle(rooms)
    visits = []
    for name in rooms:
        visits.append({"category": "corridor", "room": number, "seconds": STAY / 2})
        visits.append({"category": name, "room": number, "seconds": STAY})
    return {
        "kind": "rooms",
        "rate": RATE,
        "size": [160, 120],
        "samples": 4,
        "seed": number,
        "building": building,
        "lighting": LIGHTINGS[number % len(LIGHTINGS)],
        "visits": visits,
    }


def make_walks(folder: Path, building: str, count: int) -> list[Path]:
    """The clips of so many walks; those that are there already are not filmed again."""
    folder.mkdir(parents=True, exist_ok=True)
    clips = []
    for number in range(count):
        file = folder / f"{building}_{number}.yaml"
        file.write_text(yaml.safe_dump(scenario(building, number), sort_keys=False))
        clips.append(folder / file.stem)
        film(load_scenario(file), clips[-1], FilmOptions(depth=False), workers=1)
    return clips
