# SPDX-License-Identifier: Apache-2.0
"""Questions about still pictures: is each physical object asked about once?

    python -m studies.question_trial --data DIR [--figure FILE.png] [--choice] [--runs osd-depth]

DIR holds `osd` and `coco128`. Nine stills of each are shown for five seconds at 10 Hz, one after
the other, with jitter (`studies.jittered_stills`). They pass the detector with its tracker and
store as the node sets them up, and the curator's queue, in one process without DDS. Nobody
answers. Settings were chosen on other stills (`--choice`) than are reported.

A question is about the labelled object that the boxes of its sightings until then cover best, if
the IoU is 0.25 or more in most of them: a person who sees half of a cup is asked about the cup. An
object is recognised if it is not asked about because most of its sightings have the id of a
question about another one: the scenes share some things.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from newfound_core.detection.boxes import iou
from newfound_core.detection.detector import Detection, Detector
from newfound_core.detection.embedding import Embedder
from newfound_core.detection.same_object import View
from newfound_core.detection.unknown_objects import UnknownObject
from newfound_core.knowledge.contents import Knowledge
from newfound_nodes.curation.node import take_unknown
from newfound_nodes.curation.proposal import Answer, CurationRules, Proposal
from newfound_nodes.curation.proposal_queue import ProposalQueue, QuestionBudget, RetryPolicy
from newfound_nodes.open_world.frame_session import FrameResult
from newfound_nodes.open_world.messages import unknown_message
from newfound_nodes.open_world.parameters import (
    PARAMETERS,
    Param,
    detector_config,
    make_proposer,
    session_config,
)
from newfound_nodes.open_world.session import OpenWorldSession
from studies.jittered_stills import RATE, SECONDS, Still, coco_stills, jittered, osd_stills

RUNS = ("osd-depth", "osd-fused", "coco128-regions")  # stills and proposer
STILLS_OF = {"osd": osd_stills, "coco128": coco_stills}
ABOUT = 0.25  # IoU
OFF = {
    "min_unknown_size": 0.0,
    "min_stability": 0.0,
    "same_place_similarity": 1.0,
}
UNLIMITED = QuestionBudget(max_open=10**6, delay=2.0)
DEFAULT = QuestionBudget(per_minute=6.0, max_open=20, delay=2.0)


class SharedDetector(Detector):
    """Detects once in a frame that several sessions are shown."""

    _last: tuple[Any, list[Detection]] = (None, [])

    def detect(
        self,
        rgb: np.ndarray,
        depth: np.ndarray | None,
        knowledge: Knowledge,
        embedder: Embedder | None = None,
    ) -> list[Detection]:
        """The objects of a frame."""
        if self._last[0] is not rgb:
            self._last = (rgb, super().detect(rgb, depth, knowledge, embedder))
        return self._last[1]


@dataclass
class Robot:
    """A session, the curator's queue, and what the questions turn out to be about."""

    folder: Path
    param: Param
    detector: Detector
    budget: QuestionBudget
    now: float = 1e9
    subjects: dict[str, Any] = field(default_factory=dict)  # what each question is about
    about: dict[str, Counter[Any]] = field(default_factory=dict)  # by id: (still, object) or None
    named: Counter[Any] = field(default_factory=Counter)  # sightings as a known class
    unnamed: Counter[Any] = field(default_factory=Counter)  # and as unknown
    crops: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queue = ProposalQueue(
            self.folder / "state",
            CurationRules(),
            RetryPolicy(),
            self._changed,
            budget=self.budget,
            now=lambda: self.now,
        )
        config = session_config(self.param, str(self.folder))
        self.session = OpenWorldSession(config, self.detector, self)

    def unknown_changed(self, entry: UnknownObject) -> None:
        """The detector reports an unknown object."""
        take_unknown(self.queue, unknown_message(entry, 1))

    def _changed(self, proposal: Proposal) -> None:
        if proposal.asked and proposal.id not in self.subjects:
            self.crops[proposal.id] = self.queue.crop(proposal.id)
            seen = self.about.get(proposal.id, Counter())
            self.subjects[proposal.id] = seen.most_common(1)[0][0] if seen else None

    def knowledge_changed(self, in_use: Any) -> None:
        """Nothing is learned."""

    def job_changed(self, status: Any) -> None:
        """Nothing is learned."""

    def storage_failed(self, message: str) -> None:
        """Give up."""
        raise OSError(message)

    def look(self, rgb: np.ndarray, depth: np.ndarray | None, truth: np.ndarray, n: int) -> None:
        """Show a frame of still number n."""
        self.now += 1 / RATE
        height, width = rgb.shape[:2]
        view = View(int(self.now * 1e9), "camera", width, height)
        self._note(self.session.process(rgb, depth, view), truth, n)
        self.ask()

    def ask(self) -> None:
        """Let the curator ask what is due; providers know nothing."""
        for step in self.queue.due():
            self.queue.finished(step, Answer("refused"))

    def _note(self, result: FrameResult, truth: np.ndarray, n: int) -> None:
        for detection, unknown_id in zip(result.detections, result.unknown_ids, strict=True):
            overlap = iou(detection.box[None], truth)[0]
            best = int(overlap.argmax())
            found = (n, best) if overlap[best] >= ABOUT else None
            (self.named if detection.known else self.unnamed)[found] += 1
            if unknown_id:
                self.about.setdefault(unknown_id, Counter())[found] += 1

    def result(self, stills: Sequence[Still]) -> Mapping[str, Any]:
        """Counts for the table; a question that was merged later counts as asked."""
        objects = {(n, i) for n, still in enumerate(stills) for i in range(len(still.boxes))}
        subjects = Counter(self.subjects.values())
        nothing = subjects.pop(None, 0)
        seen: dict[Any, Counter[bool]] = {}
        for unknown_id, places in self.about.items():
            for place, count in places.items():
                seen.setdefault(place, Counter())[unknown_id in self.subjects] += count
        recognised = {s for s, asked in seen.items() if s and asked[True] > asked[False]}
        named = {s for s in objects if self.named[s] > self.unnamed[s]}
        questions = subjects.total() + nothing
        return {
            "objects": len(objects),
            "taken for known": len(named - subjects.keys()),
            "questions": questions,
            "asked about": len(subjects),
            "recognised": len(recognised - subjects.keys() - named),
            "asked again": subjects.total() - len(subjects),
            "about none": nothing,
            "per object": questions / max(len(subjects), 1),
            "backlog": len(self.queue.backlog()),
        }

    def close(self) -> None:
        """End all threads."""
        self.session.close()
        self.queue.close()


def parameters(**changes: Any) -> Param:
    """The parameters of the node, with these changes."""
    values = {parameter.name: parameter.default for parameter in PARAMETERS} | changes
    return values.__getitem__


def trial(
    stills: Sequence[Still], place: Path, frames: int = SECONDS * RATE, **changes: Any
) -> dict[str, Robot]:
    """Show stills to a robot with most rules off, one with all of them, and one with a budget."""
    param = parameters(**changes)
    detector = SharedDetector(make_proposer(param), detector_config(param))
    robots = {}
    for name, other, budget in (
        ("no filters, no places", OFF, UNLIMITED),
        ("no budget", {}, UNLIMITED),
        ("default", {}, DEFAULT),
    ):
        folder = place / name
        settings = parameters(**changes, **other, knowledge_base=str(folder / "knowledge"))
        robots[name] = Robot(folder, settings, detector, budget)
    generator = np.random.default_rng(15)
    for number, still in enumerate(stills):
        for _ in range(frames):
            rgb, depth, truth = jittered(still, generator)
            for robot in robots.values():
                robot.look(rgb, depth, truth, number)
    for robot in robots.values():
        robot.now += robot.budget.delay  # what was announced last is asked about, too
        robot.ask()
        robot.close()
    return robots


def cards(robot: Robot, side: int = 120, columns: int = 9) -> np.ndarray:
    """The crops of all questions, with what they are about."""
    shown = []
    for question, about in robot.subjects.items():
        crop = cv2.imdecode(np.frombuffer(robot.crops[question], np.uint8), 1)
        card = cv2.copyMakeBorder(
            cv2.resize(crop, (side, side)), 4, 20, 4, 4, cv2.BORDER_CONSTANT, value=(255,) * 3
        )
        text = "no object" if about is None else f"still {about[0] + 1}, object {about[1] + 1}"
        cv2.putText(card, text, (4, side + 18), cv2.FONT_HERSHEY_SIMPLEX, 0.35, (0, 0, 0), 1)
        shown.append(card)
    blank = np.full((side + 24, side + 8, 3), 255, np.uint8)
    shown += [blank] * (-len(shown) % columns)
    rows = [np.hstack(shown[i : i + columns]) for i in range(0, len(shown), columns)]
    return np.vstack(rows) if rows else blank


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--choice", action="store_true", help="the half settings are chosen on")
    parser.add_argument("--figure", type=Path, help="PNG: the questions, in FILE_<run>.png")
    parser.add_argument("--checkpoint", default="blank")
    parser.add_argument("--regions", default="regions", help="the region network")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=RUNS)
    chosen = parser.parse_args()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    head = ""
    for name in chosen.runs:
        data, proposer = name.split("-")
        stills = STILLS_OF[data](chosen.data / data, choice=chosen.choice)
        changes = {"proposer": proposer, "proposer_checkpoint": chosen.regions}
        with tempfile.TemporaryDirectory() as place:
            robots = trial(stills, Path(place), checkpoint=chosen.checkpoint, **changes)
        for setting, robot in robots.items():
            row = robot.result(stills)
            if not head:
                head = f"| stills | setting | {' | '.join(row)} |"
                print(head + "\n|" + "---|" * (len(row) + 2))
            values = (f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values())
            print(f"| {name} | {setting} | {' | '.join(values)} |", flush=True)
        if chosen.figure:
            file = chosen.figure.with_name(f"{chosen.figure.stem}_{name}.png")
            cv2.imwrite(str(file), cards(robots["no budget"]))


if __name__ == "__main__":
    main()
