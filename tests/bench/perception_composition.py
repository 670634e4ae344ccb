# SPDX-License-Identifier: Apache-2.0
"""Both perception nodes in one container against two processes: processor time and memory.

Images of 640x480 at 5 Hz, EfficientNet-Lite0 in both nodes, adaptation on (`streaming`).
`cpu_percent` is of one core; `memory_mb` is what would be free without these processes (PSS).
"""

import tempfile
import time
from pathlib import Path

import psutil
import yaml

from newfound_core.testing import usual
from newfound_msgs.msg import Classification, PlaceCategory
from newfound_runtime.testing import Harness, eventually
from tests.bench._stream import Film, executable

RATE = 5.0
NODES = {
    "adaptive_classifier": (Classification, "classification"),
    "place_categorizer": (PlaceCategory, "place"),
}


def start(harness: Harness, file: Path, composed: bool) -> list[psutil.Process]:
    """The processes that serve both nodes."""
    names = ["container"] if composed else list(NODES)
    arguments = ("--ros-args", "--params-file", str(file))
    started = [harness.process(*executable(name), *arguments) for name in names]
    for node in NODES:
        harness.becomes_active(f"/{node}")
    return [psutil.Process(process.pid) for process in started]


def used(processes: list[psutil.Process]) -> float:
    """Seconds of processor time so far."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def measure(file: Path, composed: bool, seconds: float) -> dict:
    harness = Harness()
    film = None
    try:
        counts = dict.fromkeys(NODES, 0)

        def count(node: str):
            def take(_: object) -> None:
                counts[node] += 1

            return take

        for node, (kind, topic) in NODES.items():
            harness.client.create_subscription(kind, f"/{node}/{topic}", count(node), 10, raw=True)
        processes = start(harness, file, composed)
        film = Film(harness, "/image", RATE)
        eventually(lambda: min(counts.values()) > 10, "both nodes answer", timeout=120)
        before, answers, begin = used(processes), dict(counts), time.perf_counter()
        time.sleep(seconds)
        passed = time.perf_counter() - begin
        return {
            "how": "one container" if composed else "two processes",
            "cpu_percent": 100 * (used(processes) - before) / passed,
            "memory_mb": sum(p.memory_full_info().pss for p in processes) / 1e6,
            **{f"{n}_hz": (counts[n] - answers[n]) / passed for n in NODES},
        }
    finally:
        if film is not None:
            film.close()
        harness.close()


def run(quick: bool) -> list[dict]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        models = {"adaptive_classifier": "source", "place_categorizer": "wbn"}
        values = {n: {"checkpoint": str(usual(folder / m, m))} for n, m in models.items()}
        values["adaptive_classifier"] |= {"estimator": "streaming", "balanced": False}
        values["container"] = {"nodes": list(NODES)}
        file = folder / "nodes.yaml"
        file.write_text(
            yaml.safe_dump({f"/{n}": {"ros__parameters": v} for n, v in values.items()})
        )
        rows = [measure(file, composed, 10 if quick else 60) for composed in (True, False)]
    for row in rows:
        row["cpu_ratio"] = row["cpu_percent"] / rows[1]["cpu_percent"]
        row["memory_ratio"] = row["memory_mb"] / rows[1]["memory_mb"]
    return rows
