# SPDX-License-Identifier: Apache-2.0
"""What the object memory costs by the number of things in it: 100, 1,000 and 10,000.

`see` is a frame with five things that are known already, `find` a label of which there are twenty,
`near` a place. Memories take turns. Target: a query of a few ms with 10,000 things.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from newfound_core.object_memory import ObjectMemory, Sighting
from tests.bench._timing import interleaved, median_ms, percentile_ms

COUNTS = (100, 1000, 10000)
PER_LABEL, ROOM = 20, 0.3  # things of a label; m between two things


def run(quick: bool) -> list[dict]:
    counts, rounds = (COUNTS[:2], 20) if quick else (COUNTS, 200)
    with tempfile.TemporaryDirectory() as folder:
        calls: dict[str, Callable[[], object]] = {}
        for count in counts:
            memory, things = filled(Path(folder, f"{count}.db"), count)
            calls |= {f"{name}, {count}": call for name, call in questions(memory, things).items()}
        seconds = interleaved(calls, rounds)
    return [
        {
            "": name,
            "median ms": median_ms(times),
            "p95 ms": percentile_ms(times, 95),
            "ratio": median_ms(times) / median_ms(seconds[f"{name.split(',')[0]}, {counts[0]}"]),
        }
        for name, times in sorted(seconds.items(), key=lambda pair: pair[0].split(",")[0])
    ]


def filled(path: Path, count: int) -> tuple[ObjectMemory, list[Sighting]]:
    memory, side = ObjectMemory(path, max_objects=2 * count), int(np.ceil(count**0.5))
    things = [thing(number, side) for number in range(count)]
    for start in range(0, count, 500):
        memory.see(things[start : start + 500])
    assert memory.count() == count
    return memory, things


def thing(number: int, side: int) -> Sighting:
    x, y = ROOM * (number % side), ROOM * (number // side)
    return Sighting(
        frame="map",
        position=(x, y, 0.8),
        orientation=(0.0, 0.0, 0.0, 1.0),
        size=(0.1, 0.1, 0.1),
        error=0.005,
        stamp=10**9,
        label=f"thing {number // PER_LABEL}",
        unknown_id="",
        camera="camera",
    )


def questions(memory: ObjectMemory, things: list[Sighting]) -> dict[str, Callable[[], object]]:
    rng, middle = np.random.default_rng(0), things[len(things) // 2]
    seen = [things[i] for i in rng.choice(len(things), 5, replace=False)]
    return {
        "see": lambda: memory.see(seen),
        "find": lambda: memory.find(middle.label, 0.5, 100),
        "near": lambda: memory.near("map", middle.position, 1.0, 0.5, 100),
    }
