# SPDX-License-Identifier: Apache-2.0
"""A robot learns things it was never taught: `python -m tests.learn_on_the_bench --help`.

The real detector, in a process of its own, sees films of the simulated bench over DDS. New things
(`HELD_OUT` of tests/bench_films.py) lie between known ones; the unknown objects that it announces
are given to it as classes one after another, with nothing but the views it gathered itself. After
each class the knowledge that it wrote is measured on other films of the same things (`later`: they
lie elsewhere, and in the second half the light has changed) and on single pictures of other
instances in six domains (`--scenes`, see docs/training.md).

Writes `result.json` and `learning.png`. For every method: `known_before`, the share of known
objects named right; for every class `met_unknown`, the share of its frames in the meeting film in
which the node called it unknown; `unknown_before` and `called_known_before`, in the later film
just before it was learned; `seconds`; `later`, `changed_light`, `other_instances`: shares of its
frames in which it is recognised afterwards; `known`: known objects named right afterwards;
`at_the_end`: recognised in the later film, over DDS, once all were learned.
"""

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from newfound_msgs.msg import LearningStatus
from newfound_training.detector.measures import Scene, class_outcomes
from tests.bench_films import CHOICE, HELD_OUT, KNOWN, Films, make_films
from tests.bench_robot import Robot, RobotWithoutRos, judged, said, scene_shots, unknown_ids
from tests.harness import ROOT

AnyRobot = Robot | RobotWithoutRos


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    strange = CHOICE[:3] if arguments.choice else HELD_OUT
    films = make_films(arguments.films or arguments.out / "films", strange)
    result: dict[str, Any] = {}
    for method, folder in models(arguments).items():
        result[method] = learn_all(folder, films, strange, arguments)
        print(summary(method, result[method]))
    (arguments.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    draw(result, arguments.out / "learning.png")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=["deepnno", "bdoc"])
    parser.add_argument("--checkpoints", nargs="+", type=Path, help="instead of models/bench_*")
    parser.add_argument("--films", type=Path, help="folder of the films; made where missing")
    parser.add_argument("--scenes", type=Path, help="pictures of other instances; none: left out")
    parser.add_argument("--choice", action="store_true", help="the classes for choosing settings")
    parser.add_argument(
        "--without-ros",
        action="store_true",
        help="the detector and learning in this process; --set are then options of learning",
    )
    parser.add_argument("--only", type=int, help="learn only so many of the new things")
    parser.add_argument("--set", nargs="*", default=[], help="node parameters, as name=value")
    return parser.parse_args()


def models(arguments: argparse.Namespace) -> dict[str, Path]:
    """The checkpoint of each method."""
    if arguments.checkpoints:
        return dict(zip(arguments.methods, arguments.checkpoints, strict=True))
    return {method: ROOT / "models" / f"bench_{method}" for method in arguments.methods}


def learn_all(
    checkpoint: Path, films: Films, strange: Sequence[str], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Meet everything, learn one after another, measure after each."""
    folder = arguments.out / checkpoint.name
    shutil.rmtree(folder, ignore_errors=True)
    later = [shot for clip in films.later for shot in scene_shots(clip)]
    others = scene_shots(arguments.scenes) if arguments.scenes else []
    parameters = dict(pair.split("=", 1) for pair in arguments.set)
    values = {name: json.loads(value) for name, value in parameters.items()}
    kind = RobotWithoutRos if arguments.without_ros else Robot
    robot = kind(folder, checkpoint=str(checkpoint), **values)
    try:
        met, ids = meet(robot, films)
        judge = Judge(robot.base, later, others, len(films.later))
        before = judge.measure()
        result: dict[str, Any] = {"known_before": before["known"], "classes": {}}
        for label in strange[: arguments.only]:
            entry = {"met_unknown": share(met, label, "unknown"), **called(before, label)}
            entry |= learn_one(robot, label, ids.get(label, ""))
            before = judge.measure()
            entry |= {place: before[place].get(label, {}).get("right") for place in PLACES}
            result["classes"][label] = entry | {"known": before["known"]}
            print(label, json.dumps(result["classes"][label]), flush=True)
        at_the_end = [said(shot, robot.look(shot)) for shot in later]
    finally:
        robot.close()
    result["frames"] = {"meeting": len(met), "later": len(later), "other_instances": len(others)}
    for label, entry in result["classes"].items():
        entry["at_the_end"] = share(at_the_end, label, "right")
    return result | {"known_at_the_end": before["known"]}


def meet(robot: AnyRobot, films: Films) -> tuple[list[Scene], dict[str, str]]:
    """Show the meeting films over DDS; what was said, and the ids of the unknown things."""
    scenes, ids = [], {}
    for clip in films.meeting:
        # There and back and there again: the camera takes its time, and views differ.
        shots = scene_shots(clip)
        shots = [*shots, *shots[::-1], *shots]
        messages = [robot.look(shot) for shot in shots]
        scenes += [said(*pair) for pair in zip(shots, messages, strict=True)]
        ids |= {k: v for k, v in unknown_ids(shots, messages).items() if k not in KNOWN}
    return scenes, ids


def learn_one(robot: AnyRobot, label: str, unknown_id: str) -> dict[str, Any]:
    """Ask for it to be learned and wait."""
    if not unknown_id:
        return {"learned": False, "why": "it was never announced as unknown"}
    began = time.monotonic()
    status = robot.learn(label, unknown_id)
    learned = status.stage == LearningStatus.STAGE_DONE
    seconds = round(time.monotonic() - began, 1)
    return {"learned": learned, "why": status.message, "seconds": seconds}


PLACES = ("later", "changed_light", "other_instances")


class Judge:
    """Measures the knowledge in use on frames that the robot is not shown."""

    def __init__(self, base: Path, later: list, others: list, films: int) -> None:
        self._base = base
        half = len(later) // films // 2
        halves = [later[n * half : (n + 1) * half] for n in range(2 * films)]
        self._shots = {
            "later": [shot for part in halves[::2] for shot in part],
            "changed_light": [shot for part in halves[1::2] for shot in part],
            "other_instances": others,
        }

    def measure(self) -> dict[str, Any]:
        """Shares of each class's objects by outcome in each place; `known`: of all known ones."""
        scenes = {place: judged(self._base, shots) for place, shots in self._shots.items()}
        counts = {place: class_outcomes(found) for place, found in scenes.items()}
        everything = class_outcomes([scene for found in scenes.values() for scene in found])
        of_known = [everything[label] for label in KNOWN if label in everything]
        right = sum(outcomes["right"] for outcomes in of_known)
        shares = {p: {c: _shares(o) for c, o in found.items()} for p, found in counts.items()}
        return shares | {"known": right / sum(sum(o.values()) for o in of_known)}


def called(before: dict[str, Any], label: str) -> dict[str, float]:
    """What a class was called in the later film."""
    shares = before["later"][label]
    return {"unknown_before": shares["unknown"], "called_known_before": shares["wrong"]}


def share(scenes: Sequence[Scene], label: str, outcome: str) -> float:
    """The share of a class's objects with an outcome."""
    return _shares(class_outcomes(scenes)[label])[outcome]


def _shares(outcomes: dict[str, int]) -> dict[str, float]:
    total = sum(outcomes.values())
    return {name: count / total for name, count in outcomes.items()}


def summary(method: str, result: dict[str, Any]) -> str:
    """The numbers of a method in one line."""
    classes = result["classes"].values()

    def mean(name: str) -> float:
        values = [entry[name] for entry in classes if entry.get(name) is not None]
        return sum(values) / max(1, len(values))

    parts = {name: mean(name) for name in ("met_unknown", "unknown_before", *PLACES, "at_the_end")}
    loss = 100 * (result["known_before"] - result["known_at_the_end"])
    told = ", ".join(f"{name} {100 * value:.0f} %" for name, value in parts.items())
    return f"{method}: {told}; known {100 * result['known_before']:.1f} %, lost {loss:.1f} points"


def draw(result: dict[str, Any], file: Path) -> None:
    """For every class what it was called before and after; the known classes over time."""
    import matplotlib.pyplot as plt

    bars = {
        "unknown before": ("unknown_before", "#e9a13b"),
        "recognised after": ("later", "#2a9d5c"),
        "in another light": ("changed_light", "#7cc79b"),
        "other instances": ("other_instances", "#bfe3cd"),
    }
    figure, axes = plt.subplots(
        len(result), 2, figsize=(10, 2.8 * len(result)), squeeze=False, layout="constrained",
        width_ratios=(2, 1),
    )  # fmt: skip
    for (left, right), (method, found) in zip(axes, result.items(), strict=True):
        classes = found["classes"]
        for number, (name, (key, colour)) in enumerate(bars.items()):
            heights = [100 * (entry.get(key) or 0) for entry in classes.values()]
            places = [place + 0.2 * (number - 1.5) for place in range(len(classes))]
            left.bar(places, heights, 0.2, color=colour, label=name)
        left.set_xticks(range(len(classes)), classes, fontsize=8)
        left.set_ylabel(f"{method}\nframes, %")
        left.set_ylim(0, 100)
        known = [found["known_before"], *(entry["known"] for entry in classes.values())]
        right.plot(range(len(known)), [100 * value for value in known], "o-", color="#35618f")
        right.set(ylim=(0, 100), xlabel="classes learned", ylabel="known objects named right, %")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    figure.savefig(file, dpi=100)


if __name__ == "__main__":
    main()
