# SPDX-License-Identifier: Apache-2.0
"""Kill -9 at random moments of learning: `python -m studies.learning_kills --help`.

A process holds everything of a detector that is not ROS (`OpenWorldSession`: knowledge
base, job queue, unknown objects) and goes on learning a class and forgetting it, with a tiny
model and the real
code of `learn`, which here runs in the same process: a kill takes both sides, as a power cut does.
After each kill the knowledge is opened as a node would: nothing may be damaged, no class that was
taught may be missing, and every remembered image must be readable. The next process takes up the
job where it was.

Writes `result.json`: `kills`, `intact`, `damages`, what was going on at the kills (`states`) and
`changes_of_knowledge`, those that came to their end in between.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import cv2
import torch

from newfound_core.detection.detector import Detector
from newfound_core.detection.proposals import WholeImage
from newfound_core.knowledge.contents import read_knowledge
from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.learning.job import LearningOptions
from newfound_core.learning.job_folder import JobFolder
from newfound_core.testing import COLOURS, square, tiny_open_world
from newfound_nodes.open_world.session import OpenWorldSession, SessionConfig
from studies.bench_robot import NoEvents
from studies.inside_learner import learn_inside

YELLOW, NEW = (230, 220, 40), "lemon"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    result = kill_often(arguments.out / "base", arguments.kills, arguments.seed)
    (arguments.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if result["intact"] == result["kills"] else 1


def kill_often(root: Path, kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill so many times, and look at what is left after each."""
    torch.set_num_threads(1)  # a process that was forked has no thread pool
    shipped = tiny_open_world(root.parent / "shipped")
    moments = random.Random(seed)
    cycle = _seconds_of_a_cycle(root, shipped)
    states: Counter[str] = Counter()
    damages, versions = [], [_look(root)[0]]
    for number in range(kills):
        child = _start(root, shipped)
        time.sleep(moments.uniform(0, cycle))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        states[_state(root)] += 1
        version, damage = _look(root)
        versions.append(version)
        damages += damage
        if number % 20 == 19:
            print(f"{number + 1} kills, version {version}, damages: {damages}", file=sys.stderr)
    return {
        "kills": kills,
        "intact": kills - len(damages),
        "damages": damages,
        "changes_of_knowledge": versions[-1] - versions[0],
        "seconds_of_a_cycle": round(cycle, 2),
        "states": dict(states.most_common()),
    }


def _seconds_of_a_cycle(root: Path, shipped: Path) -> float:
    """How long it takes to learn a class and forget it, from the start of the process."""
    began = time.monotonic()
    os.waitpid(_start(root, shipped, cycles=1), 0)
    return time.monotonic() - began


def _start(root: Path, shipped: Path, cycles: int = 10**6) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _live(root, shipped, cycles)
            code = 0
        finally:
            os._exit(code)
    return child


def _live(root: Path, shipped: Path, cycles: int) -> None:
    """Learn and forget, over and over."""
    learn_inside()
    config = SessionConfig(root, shipped, versions_kept=3)
    session = OpenWorldSession(config, Detector(WholeImage()), NoEvents())
    options = LearningOptions(epochs=3, max_accuracy_loss=1.0)
    for _ in range(cycles):
        if NEW not in session.in_use.knowledge.labels and not session.jobs.busy:
            session.learn(NEW, "", _images, options)
        while session.jobs.busy:
            time.sleep(0.002)
        if NEW in session.in_use.knowledge.labels:
            session.forget(NEW)


def _look(root: Path) -> tuple[int, list[str]]:
    """The version in use after a kill, and what is wrong with it."""
    try:
        base = KnowledgeBase(root, read_knowledge)
    except Exception as error:
        return 0, [f"{type(error).__name__}: {error}"]
    try:
        now = base.open()
    except Exception as error:
        return 0, [f"{type(error).__name__}: {error}"]
    finally:
        base.close()
    missing = set(COLOURS) - set(now.content.labels)
    forgotten = [label for label in COLOURS if now.content.exemplars.get(label, 0) < 2]
    wrong = [*now.warnings]
    wrong += [f"lost {missing}"] if missing else []
    wrong += [f"no memory of {forgotten}"] if forgotten else []
    return now.version, ["; ".join(wrong)] if wrong else []


def _state(root: Path) -> str:
    """What was going on: the last thing that an unfinished job reported."""
    for folder in sorted((root / "jobs").glob("[0-9]*"), reverse=True):
        if not (folder / "status.json").exists():
            if (folder / "result.json").exists():
                return "switching"
            progress = JobFolder(folder).progress()
            return progress.state if progress else "starting"
    return "between jobs"


def _images() -> tuple[dict[str, bytes], str]:
    pictures = [cv2.imencode(".png", square(YELLOW, n)[..., ::-1])[1] for n in range(8)]
    return {f"{n}.png": picture.tobytes() for n, picture in enumerate(pictures)}, ""


if __name__ == "__main__":
    sys.exit(main())
