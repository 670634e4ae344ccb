# SPDX-License-Identifier: Apache-2.0
"""What a frame costs the open-world detector as knowledge and unknown things grow.

The shipped model of the bench on frames of the shipped clip, found by depth, without ROS: regions,
features, decision, tracks, unknown objects. Classes beyond those of the model have random means.
Hoped for: flat within 10 %, from 10 to 1,000 classes and from 0 to 100 unknown objects.
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
from newfound_core.detection.depth_relief import DepthRelief
from newfound_core.detection.detector import Detector
from newfound_core.detection.unknown_object import UnknownObject
from newfound_core.detection.unknowns import View
from newfound_core.knowledge.contents import Knowledge
from newfound_nodes.open_world.mind import Listener, Mind, MindConfig
from tests import ROOT
from tests.bench._timing import interleaved
from tests.bench_robot import Shot, clip_shots

MODEL = ROOT / "models" / "bench_bdoc"
CLIP = ROOT / "src" / "newfound_sim" / "clips" / "workbench_demo"
CLASSES, UNKNOWNS = (10, 100, 1000), (0, 10, 100)


def _nobody(value: object) -> None:
    pass


def make_mind(root: Path) -> Mind:
    """A detector without ROS and without anybody who listens."""
    listener = Listener(_nobody, _nobody, _nobody)
    return Mind(MindConfig(root, MODEL), Detector(DepthRelief()), listener)


def use_classes(mind: Mind, count: int) -> None:
    """Give the knowledge in use so many classes."""
    now = mind.keeper.now
    head = now.knowledge.model.head
    while len(head.labels) > count:
        head.forget(head.labels[-1])
    new = [f"class {number}" for number in range(count - len(head.labels))]
    if new:
        head.extend(new)
        generator = torch.Generator().manual_seed(count)
        means = torch.randn(len(new), head.dimension, generator=generator)
        scaled = torch.nn.functional.normalize(means) * now.knowledge.model.embedding.scale
        labels = torch.arange(len(head.labels) - len(new), len(head.labels))
        head.refit([(scaled, labels)], features_changed=False)
    loaded = now.knowledge.loaded
    loaded = replace(loaded, metadata=replace(loaded.metadata, labels=tuple(head.labels)))
    knowledge = Knowledge(loaded, now.knowledge.exemplars, now.knowledge.memory_limit)
    mind.keeper.now = replace(now, knowledge=knowledge)


def meet(mind: Mind, count: int, shot: Shot) -> None:
    """Let it know so many unknown objects, all different."""
    crop = shot.rgb[:96, :96]
    generator = np.random.default_rng(count)
    unknowns = mind._unknowns._unknowns
    mind.see(shot.rgb, None, View(0, "camera", 640, 480))  # finds nothing, sets everything up
    dimension = mind.keeper.now.knowledge.model.head.dimension
    for number in range(count):
        entry = unknown_entry(f"u{number:012x}", crop)
        unknowns.restore([entry])
        away = generator.standard_normal(dimension).astype(np.float32)
        unknowns._looks[entry.id] = away / np.linalg.norm(away)


def unknown_entry(name: str, crop: np.ndarray) -> UnknownObject:
    """An unknown object that was seen now and then."""
    crops = keep_best((), crop, 0.5, 0, count=24, gap=3)
    return UnknownObject(
        id=name, state="waiting", sightings=9, first_seen=0, last_seen=0, seen_at=time.time(),
        frame_id="camera", box=(0.0, 0.0, 9.0, 9.0), crops=crops, nearest_label="", distance=1.0,
        rejection_threshold=0.5,
    )  # fmt: skip


def looker(mind: Mind, shots: list[Shot]) -> Callable[[], None]:
    """One turn: every frame once."""

    def turn() -> None:
        for number, shot in enumerate(shots):
            depth = shot.depth.astype(np.float32) * 1e-3
            mind.see(shot.rgb, depth, View(number, "camera", 640, 480))

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
            "hoped": "" if name == base else "<= 1.10",
        }
        for name in turns
    ]


def run(quick: bool) -> list[dict]:
    keep_freed_memory()  # as the nodes do
    torch.set_num_threads(1)
    shots = clip_shots(CLIP)[::40][: 4 if quick else 10]
    rounds, minds = (5 if quick else 40), []
    with tempfile.TemporaryDirectory() as place:
        try:
            by_classes, by_unknowns = {}, {}
            for count in CLASSES:
                minds.append(make_mind(Path(place) / f"classes_{count}"))
                use_classes(minds[-1], count)
                by_classes[f"{count} classes"] = looker(minds[-1], shots)
            for count in UNKNOWNS:
                minds.append(make_mind(Path(place) / f"unknowns_{count}"))
                meet(minds[-1], count, shots[0])
                by_unknowns[f"{count} unknown objects"] = looker(minds[-1], shots)
            return compare("known classes", by_classes, len(shots), rounds) + compare(
                "unknown objects", by_unknowns, len(shots), rounds
            )
        finally:
            for mind in minds:
                mind.close()
