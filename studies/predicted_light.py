# SPDX-License-Identifier: Apache-2.0
"""Would a prediction of the light's shift help the detector's first frames in another light?

    python -m studies.predicted_light --knowledge runs/learned/sim_bench_bdoc/knowledge \
        --films runs/films --lights data/lights --out DIR

`--knowledge` is what `learn_on_the_bench` (without --adapt) wrote to runs/learned, `--films` its
films, `--lights` pictures of known things in several lights, made by `python -m newfound_sim
generate detection`. Each light is a node of a graph, known by what is measured on its pictures; in
the place of statistics a node has its shift: how far embeddings of known things lie from the means
of the classes they are taken for. No label is read. The regression is chosen by leaving one light
out at a time.

Learned classes are then moved by the difference between the shift predicted for the frames so far
(five at most) and that for the film in which they were learned. Writes `result.json`: for each way
to serve the share of learned things recognised in frames 1 to 10 and 11 to 24 after the change
(`first`, `second`), of known things named right, and of things that it says of known things to be
learned ones (`mistaken`).
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector
from newfound_core.detection.embedding import PlainEmbedder
from newfound_core.detection.light_shift import LightShift, moved_knowledge
from newfound_core.knowledge.contents import Knowledge, read_knowledge
from newfound_core.predictive import DomainGraph, GraphConfig, Node, RegressionConfig, Schema
from newfound_core.predictive.choice import CANDIDATES
from newfound_core.predictive.measured import average, measure, measured_fields
from newfound_training.detector.measures import Scene, class_outcomes
from studies.bench_robot import Shot, scene_shots

WINDOWS = {"first": (0, 10), "second": (10, 24)}
MET = 24  # frames of a meeting film that were learned from


@dataclass(frozen=True)
class Seen:
    """One frame: what was found in it, and how it looks."""

    shot: Shot
    boxes: np.ndarray
    features: Tensor  # [N, D]
    measured: dict[str, float]


class Eyes:
    """Finds things and embeds them; nothing is named yet."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self._detector, self._embedder = Detector(DepthSegments()), PlainEmbedder(knowledge.loaded)

    def look(self, shot: Shot) -> Seen:
        depth = shot.depth.astype(np.float32) * 1e-3
        found = self._detector.detect(shot.rgb, depth, self.knowledge, self._embedder)
        boxes = np.array([d.box for d in found], np.float32).reshape(-1, 4)
        size = self.knowledge.model.head.dimension
        features = np.array([d.embedding * d.length for d in found], np.float32).reshape(-1, size)
        resized = self.knowledge.loaded.metadata.preprocessing.resized(shot.rgb)
        return Seen(shot, boxes, torch.from_numpy(features), measure(resized))


def shift_of(knowledge: Knowledge, seen: Sequence[Seen]) -> Tensor:
    """How far known things lie from their classes, the mean over the classes recognised."""
    head, features = knowledge.model.head, torch.cat([s.features for s in seen])
    label = head.decide(features).label
    shipped = [c for c, name in enumerate(head.labels) if name not in knowledge.learned_in]
    residuals = [(features[label == c] - head.means.value[c]).mean(0) for c in shipped
                 if bool((label == c).any())]  # fmt: skip
    return torch.stack(residuals).mean(0)


def graph_of(lights: dict[str, list[Seen]], knowledge: Knowledge) -> DomainGraph:
    """A graph whose nodes are lights with their shifts; the variances mean nothing."""
    nodes = [Node(n, dict(average([s.measured for s in of])), len(of)) for n, of in lights.items()]
    schema = Schema(measured_fields()).fitted([node.metadata for node in nodes])
    shifts = torch.stack([shift_of(knowledge, of) for of in lights.values()]).double()
    graph = DomainGraph(schema, nodes, shifts, torch.ones_like(shifts))

    def error(regression: RegressionConfig) -> float:
        tried = graph.with_config(GraphConfig(measured=regression))
        apart = [
            tried.without(i).predict(node.metadata).statistics.mean - shifts[i]
            for i, node in enumerate(nodes)
        ]
        return float(torch.stack(apart).square().sum(1).mean())

    best = min(CANDIDATES["measured"], key=error)
    spread = float((shifts - shifts.mean(0)).square().sum(1).mean())
    print(f"{len(nodes)} lights: {best}, error {error(best):.4f} of {spread:.4f}")
    return graph.with_config(GraphConfig(measured=best))


def own_shift(knowledge: Knowledge, film: Sequence[Seen]) -> Tensor:
    """How far learned things lie from their classes, by their true labels: as good as it gets."""
    head = knowledge.model.head
    found: dict[str, list[Tensor]] = {label: [] for label in knowledge.learned_in}
    for seen in film:
        count = len(seen.boxes)
        truth = seen.shot.boxes, seen.shot.labels
        scene = Scene(*truth, seen.boxes, ("",) * count, (1.0,) * count)
        for label, match in zip(scene.truth_labels, scene.matches(), strict=True):
            if match >= 0 and label in found:
                found[label].append(seen.features[match])
    means = head.means.value
    each = [torch.stack(of).mean(0) - means[head.labels.index(c)] for c, of in found.items() if of]
    return torch.stack(each).mean(0)


Serve = Callable[[Sequence[Seen]], Knowledge]  # by the frames so far, the present one the last


def predicted(graph: DomainGraph, knowledge: Knowledge, met: Sequence[Seen]) -> Serve:
    before = graph.predict(average([s.measured for s in met])).statistics.mean

    def serve(seen: Sequence[Seen]) -> Knowledge:
        now = graph.predict(average([s.measured for s in seen[:5]])).statistics.mean
        return moved_knowledge(knowledge, (now - before).float())

    return serve


def following(knowledge: Knowledge, start: Serve | None = None) -> Serve:
    """Serve what the light follower makes of the frames; `start` until it knows something."""
    shift = LightShift(knowledge.model.head.dimension)
    served: list[Knowledge] = []

    def serve(seen: Sequence[Seen]) -> Knowledge:
        if len(seen) > 1 and shift.observe(seen[-2].features) and shift.update(knowledge):
            served.append(moved_knowledge(knowledge, shift.value))
        return served[-1] if served else start(seen) if start else knowledge

    return serve


def judge(serve: Serve, film: Sequence[Seen]) -> list[Scene]:
    scenes = []
    for number, seen in enumerate(film):
        head = serve(film[: number + 1]).model.head
        labels = head.decide(seen.features).label.tolist() if len(seen.features) else []
        names = tuple(head.labels[c] if c >= 0 else "" for c in labels)
        scenes.append(
            Scene(seen.shot.boxes, seen.shot.labels, seen.boxes, names, (1.0,) * len(names))
        )
    return scenes


def measures(scenes: Sequence[Scene], learned: set[str]) -> dict[str, float]:
    outcomes = class_outcomes(scenes)
    share = [o["right"] / max(1, sum(o.values())) for c, o in outcomes.items() if c in learned]
    known = [o for c, o in outcomes.items() if c not in learned]
    total = max(1, sum(sum(o.values()) for o in known))
    said = [(t, s.labels[m]) for s in scenes for t, m in zip(s.truth_labels, s.matches(),
            strict=True) if m >= 0 and t not in learned]  # fmt: skip
    return {
        "learned": 100 * float(np.mean(share)),
        "known": 100 * sum(o["right"] for o in known) / total,
        "mistaken": 100 * sum(name in learned for _, name in said) / total,
    }


def run(arguments: argparse.Namespace) -> dict[str, dict[str, dict[str, float]]]:
    knowledge = read_knowledge(arguments.knowledge / "current")
    eyes, learned = Eyes(knowledge), set(knowledge.learned_in)
    lights = {
        folder.name: [eyes.look(shot) for shot in pictures(folder)]
        for folder in sorted(arguments.lights.iterdir())
        if (folder / "images").is_dir()
    }
    without = {name: of for name, of in lights.items() if "directed" not in name}
    graphs = {"known": graph_of(lights, knowledge), "left out": graph_of(without, knowledge)}
    scenes: dict[str, dict[str, list[Scene]]] = {}
    for table in range(2):
        met = [eyes.look(s) for s in scene_shots(arguments.films / f"meeting_{table}")[:MET:6]]
        shots = scene_shots(arguments.films / f"other_light_{table}")
        film = [eyes.look(shot) for shot in shots]
        ways: dict[str, Serve] = {"nothing": lambda _: knowledge}
        ways["following"] = following(knowledge)
        own = moved_knowledge(knowledge, own_shift(knowledge, film))
        ways["the film's own shift, by labels"] = lambda _, own=own: own
        for name, graph in graphs.items():
            start = predicted(graph, knowledge, met)
            ways[f"predicted, light {name}"] = start
            ways[f"predicted, light {name}, then following"] = following(knowledge, start)
        for name, serve in ways.items():
            judged = judge(serve, film)
            for window, (begin, end) in WINDOWS.items():
                scenes.setdefault(name, {}).setdefault(window, []).extend(judged[begin:end])
    return {
        name: {window: measures(of, learned) for window, of in windows.items()}
        for name, windows in scenes.items()
    }


def pictures(folder: Path) -> list[Shot]:
    """Pictures with depth; what is in them is not looked at."""
    shots = []
    for path in sorted((folder / "images").glob("*.jpg")):
        rgb = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        depth = cv2.imread(str(folder / "depth" / f"{path.stem}.png"), cv2.IMREAD_UNCHANGED)
        shots.append(Shot(rgb, depth, np.zeros((0, 4), np.float32), ()))
    return shots


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("knowledge", "films", "lights", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    result = run(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    for name, windows in result.items():
        print(name, {w: {k: round(v, 1) for k, v in of.items()} for w, of in windows.items()})


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
