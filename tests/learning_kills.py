# SPDX-License-Identifier: Apache-2.0
"""Kill -9 at random moments of learning: `python -m tests.learning_kills --help`.

A process holds everything of a detector that is not ROS (`Mind`: knowledge base, job queue,
unknown objects) and goes on learning a class and forgetting it, with a tiny model and the real
code of `learn`, which here runs in the same process: a kill takes both sides, as a power cut does.
After each kill the knowledge is opened as a node would: nothing may be damaged, no class that was
taught may be missing, and every remembered image must be readable. The next process takes up the
job where it was.

Writes `result.json`: `kills`, `intact`, `damages`, what was going on at the kills (`stages`) and
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
from sensor_msgs.msg import CompressedImage

from newfound_core.detection.detector import Detector
from newfound_core.detection.whole_image import WholeImage
from newfound_core.open_world import job as jobs
from newfound_core.open_world.job import LearningOptions
from newfound_core.testing import COLOURS, square, tiny_open_world
from newfound_msgs.srv import AddUnknownClass
from newfound_nodes.open_world.keeper import KnowledgeKeeper
from newfound_nodes.open_world.mind import Listener, Mind, MindConfig
from tests.inside_learner import learn_inside

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
    stages: Counter[str] = Counter()
    damages, versions = [], [_look(root)[0]]
    for number in range(kills):
        child = _start(root, shipped)
        time.sleep(moments.uniform(0, cycle))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        stages[_stage(root)] += 1
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
        "stages": dict(stages.most_common()),
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
    nobody = Listener(_ignore, _ignore, _ignore)
    mind = Mind(MindConfig(root, shipped, versions_kept=3), Detector(WholeImage()), nobody)
    for _ in range(cycles):
        if NEW not in mind.keeper.now.knowledge.labels and not mind.queue.busy:
            request = AddUnknownClass.Request(label=NEW, images=_images())
            mind.learn(request, LearningOptions(epochs=3, max_accuracy_loss=1.0))
        while mind.queue.busy:
            time.sleep(0.002)
        if NEW in mind.keeper.now.knowledge.labels:
            mind.keeper.forget(NEW)


def _look(root: Path) -> tuple[int, list[str]]:
    """The version in use after a kill, and what is wrong with it."""
    try:
        keeper = KnowledgeKeeper(root, None)
    except Exception as error:
        return 0, [f"{type(error).__name__}: {error}"]
    now = keeper.now
    keeper.close()
    missing = set(COLOURS) - set(now.knowledge.labels)
    forgotten = [label for label in COLOURS if now.knowledge.exemplars.get(label, 0) < 2]
    wrong = [*keeper.complaints]
    wrong += [f"lost {missing}"] if missing else []
    wrong += [f"no memory of {forgotten}"] if forgotten else []
    return now.version, ["; ".join(wrong)] if wrong else []


def _stage(root: Path) -> str:
    """What was going on: the last thing that an unfinished job reported."""
    for folder in sorted((root / "jobs").glob("[0-9]*"), reverse=True):
        if not (folder / "status.json").exists():
            if (folder / jobs.RESULT_NAME).exists():
                return "switching"
            progress = jobs.read_progress(folder)
            return progress.stage if progress else "starting"
    return "between jobs"


def _images() -> list[CompressedImage]:
    pictures = [cv2.imencode(".png", square(YELLOW, n)[..., ::-1])[1] for n in range(8)]
    return [CompressedImage(format="png", data=picture.tobytes()) for picture in pictures]


def _ignore(value: object) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main())
