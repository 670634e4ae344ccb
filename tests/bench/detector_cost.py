# SPDX-License-Identifier: Apache-2.0
"""What a frame costs the open-world detector as knowledge and unknown things grow.

The shipped model of the bench on frames of the shipped clip, found by depth, without ROS: regions,
features, decision, tracks, unknown objects. Classes beyond those of the model have random means.
Target: flat within 10 %, from 10 to 1,000 classes and from 0 to 100 unknown objects.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from newfound_core.allocation import keep_freed_memory
from newfound_core.detection.crops import keep_best
from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector
from newfound_core.detection.same_object import View
from newfound_core.detection.unknown_objects import UnknownObject, UnknownState
from newfound_core.knowledge.contents import Knowledge
from newfound_nodes.open_world.session import OpenWorldSession, SessionConfig
from studies.bench_robot import NoEvents, Shot, clip_shots
from tests import ROOT
from tests.bench._timing import interleaved

MODEL = ROOT / "models" / "sim_bench_bdoc"
CLIP = ROOT / "src" / "newfound_sim" / "clips" / "workbench_demo"
CLASSES, UNKNOWNS = (10, 100, 1000), (0, 10, 100)


def make_session(root: Path) -> OpenWorldSession:
    """A detector without ROS."""
    return OpenWorldSession(SessionConfig(root, MODEL), Detector(DepthSegments()), NoEvents())


def use_classes(session: OpenWorldSession, count: int) -> None:
    """Give the knowledge in use so many classes."""
    in_use = session.in_use
    head = in_use.knowledge.model.head
    while len(head.labels) > count:
        head.forget(head.labels[-1])
    new = [f"class {number}" for number in range(count - len(head.labels))]
    if new:
        head.extend(new)
        generator = torch.Generator().manual_seed(count)
        means = torch.randn(len(new), head.dimension, generator=generator)
        scaled = torch.nn.functional.normalize(means) * in_use.knowledge.model.embedding.scale
        labels = torch.arange(len(head.labels) - len(new), len(head.labels))
        head.refit([(scaled, labels)], features_changed=False)
    loaded = in_use.knowledge.loaded
    loaded = replace(loaded, metadata=replace(loaded.metadata, labels=tuple(head.labels)))
    knowledge = Knowledge(loaded, in_use.knowledge.exemplars, in_use.knowledge.memory_limit)
    session.in_use = replace(in_use, knowledge=knowledge)


def meet(session: OpenWorldSession, count: int, shot: Shot) -> None:
    """Let it know so many unknown objects, all different."""
    crop = shot.rgb[:96, :96]
    generator = np.random.default_rng(count)
    store = session._unknowns
    session.process(
        shot.rgb, None, View(0, "camera", 640, 480)
    )  # finds nothing, sets everything up
    dimension = session.in_use.knowledge.model.head.dimension
    for number in range(count):
        entry = unknown_entry(f"u{number:012x}", crop)
        store._objects[entry.id] = entry
        away = generator.standard_normal(dimension).astype(np.float32)
        store._index.place(entry.id, entry.box, View(0, "camera", 640, 480))
        store._index.follow(entry.id, away / np.linalg.norm(away))


def unknown_entry(name: str, crop: np.ndarray) -> UnknownObject:
    """An unknown object that was seen now and then."""
    crops = keep_best((), crop, 0.5, 0, count=24, gap=3)
    return UnknownObject(
        id=name, state=UnknownState.WAITING, sightings=9, first_seen=0, last_seen=0,
        seen_at=time.time(), frame_id="camera", box=(0.0, 0.0, 9.0, 9.0), crops=crops,
        nearest_label="", distance=1.0,
        rejection_threshold=0.5,
    )  # fmt: skip


def process_all(session: OpenWorldSession, shots: list[Shot]) -> Callable[[], None]:
    """One turn: every frame once."""

    def turn() -> None:
        for number, shot in enumerate(shots):
            depth = shot.depth.astype(np.float32) * 1e-3
            session.process(shot.rgb, depth, View(number, "camera", 640, 480))

    return turn


def compare(group: str, turns: dict[str, Callable], frames: int, rounds: int) -> list[dict]:
    seconds = interleaved(turns, rounds, warm_up=2)
    base = next(iter(turns))
    return [
        {
            "group": group,
            "contestant": name,
            "ms per frame": 1e3 * statistics.median(seconds[name]) / frames,
            "ratio": statistics.median(
                a / b for a, b in zip(seconds[name], seconds[base], strict=True)
            ),
            "target": "" if name == base else "<= 1.10",
        }
        for name in turns
    ]


def run(quick: bool) -> list[dict]:
    keep_freed_memory()  # as the nodes do
    torch.set_num_threads(1)
    shots = clip_shots(CLIP)[::40][: 4 if quick else 10]
    rounds, sessions = (5 if quick else 40), []
    with tempfile.TemporaryDirectory() as place:
        try:
            by_classes, by_unknowns = {}, {}
            for count in CLASSES:
                sessions.append(make_session(Path(place) / f"classes_{count}"))
                use_classes(sessions[-1], count)
                by_classes[f"{count} classes"] = process_all(sessions[-1], shots)
            for count in UNKNOWNS:
                sessions.append(make_session(Path(place) / f"unknowns_{count}"))
                meet(sessions[-1], count, shots[0])
                by_unknowns[f"{count} unknown objects"] = process_all(sessions[-1], shots)
            return compare("known classes", by_classes, len(shots), rounds) + compare(
                "unknown objects", by_unknowns, len(shots), rounds
            )
        finally:
            for session in sessions:
                session.close()
