# SPDX-License-Identifier: Apache-2.0
"""A robot learns things it was never taught: `python -m studies.learn_on_the_bench --help`.

The real detector, in a process of its own, sees films of the simulated bench over DDS. New things
(`HELD_OUT` of bench_films.py) lie between known ones; the unknown objects that it announces
are given to it as classes one after another, with nothing but the views it gathered itself. What
it took for something known, a person points out: with crops of the same frames. After each class
the knowledge that it wrote is measured on the rest of that film (`soon`: the camera has moved on
around the table), on other films of the same things (`later`: they lie elsewhere, turned another
way; `changed_light`: its second half), and on single pictures of other instances in six domains
(`other_instances`, with `--scenes`, see docs/training.md). With `--adapt` learned classes follow
the light: over the films in this order, and before `changed_light` over 24 frames of the same
table in that light, from other sides, which are not measured.

Writes `result.json` and `learning.png`. For every method: `known_before`, the share of known
objects named right; for every class `met_unknown`, the share of its frames in which the node
called it unknown when it met it; `announced`, whether that was often enough; `unknown_before` and
`called_known_before`, in the later film just before it was learned; `seconds`; `soon`, `later`,
`changed_light`, `other_instances`: shares of its frames in which it is recognised afterwards;
`known`: known objects named right afterwards; `unlearned_named`: things not learned yet that are
given any name, `unlearned_named_before` the same things just before; `mistaken`: sightings of
other things, known or not, that are given its name; `at_the_end`: recognised in the later film by
the node itself once all were learned; `light_at_the_end`: `changed_light` once all were learned.
"""

import argparse
import json
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from newfound_core.detection.light_shift import LightShift
from newfound_msgs.msg import LearningStatus
from newfound_msgs.srv import AddUnknownClass
from newfound_training.detector.measures import Scene, class_outcomes
from studies.bench_films import CHOICE, HELD_OUT, KNOWN, Films, make_films
from studies.bench_robot import (
    CachedFeatures,
    Judged,
    Robot,
    RobotWithoutRos,
    Shot,
    pointed_out,
    said,
    scene_shots,
    unknown_ids,
)
from tests import ROOT

AnyRobot = Robot | RobotWithoutRos
MET = 24  # frames of a meeting film that the robot is shown; the rest comes soon after


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    strange = CHOICE if arguments.choice else HELD_OUT
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
    parser.add_argument("--checkpoints", nargs="+", type=Path, help="instead of the shipped ones")
    parser.add_argument("--films", type=Path, help="folder of the films; made where missing")
    parser.add_argument("--scenes", type=Path, help="pictures of other instances; none: left out")
    parser.add_argument("--choice", action="store_true", help="the classes for choosing settings")
    parser.add_argument(
        "--without-ros",
        action="store_true",
        help="the detector and learning in this process; --set are then options of learning",
    )
    parser.add_argument("--adapt", action="store_true", help="learned classes follow the light")
    parser.add_argument("--only", type=int, help="learn only so many of the new things")
    parser.add_argument("--set", nargs="*", default=[], help="node parameters, as name=value")
    return parser.parse_args()


def models(arguments: argparse.Namespace) -> dict[str, Path]:
    """The checkpoint of each method; that of ridge_lda knows no class."""
    if arguments.checkpoints:
        return dict(zip(arguments.methods, arguments.checkpoints, strict=True))
    names = {m: "blank" if m == "ridge_lda" else f"sim_bench_{m}" for m in arguments.methods}
    return {method: ROOT / "models" / name for method, name in names.items()}


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
    robot = kind(folder, checkpoint=str(checkpoint), adapt=arguments.adapt, **values)
    try:
        met, ids = meet(robot, films)
        judge = Judge(robot.base, films, others, adapt=arguments.adapt)
        before = judge.measure()
        result: dict[str, Any] = {"known_before": before["known"], "classes": {}}
        for number, label in enumerate(strange[: arguments.only], start=1):
            entry = {"met_unknown": share(met, label, "unknown"), **called(before, label)}
            entry |= learn_one(robot, label, ids.get(label, ""), films)
            left, earlier = strange[number:], before
            before = judge.measure()
            entry["unlearned_named_before"] = unlearned_named(earlier["names"], left)
            entry["unlearned_named"] = unlearned_named(before["names"], left)
            entry["mistaken"] = mistaken(before["names"], label)
            entry |= {place: before[place].get(label, {}).get("right") for place in PLACES}
            result["classes"][label] = entry | {"known": before["known"]}
            print(label, json.dumps(result["classes"][label]), flush=True)
        at_the_end = [said(shot, robot.look(shot)) for shot in later]
    finally:
        robot.close()
    result["frames"] = {"meeting": len(met), "later": len(later), "other_instances": len(others)}
    for label, entry in result["classes"].items():
        entry["at_the_end"] = share(at_the_end, label, "right")
        entry["light_at_the_end"] = before["changed_light"][label]["right"]
    return result | {"known_at_the_end": before["known"]}


def meet(robot: AnyRobot, films: Films) -> tuple[list[Scene], dict[str, str]]:
    """Show the meeting films over DDS; what was said, and the ids of the unknown things."""
    scenes, ids = [], {}
    for clip in films.meeting:
        shots = scene_shots(clip)[:MET]
        messages = [robot.look(shot) for shot in shots]
        scenes += [said(*pair) for pair in zip(shots, messages, strict=True)]
        ids |= {k: v for k, v in unknown_ids(shots, messages).items() if k not in KNOWN}
    return scenes, ids


def learn_one(robot: AnyRobot, label: str, unknown_id: str, films: Films) -> dict[str, Any]:
    """Ask for it to be learned and wait; what was never announced, a person points out."""
    request = AddUnknownClass.Request(label=label, unknown_id=unknown_id)
    if not unknown_id:
        shown = [shot for film in films.meeting for shot in scene_shots(film)[:MET]]
        request.images = pointed_out(shown, label)
    began = time.monotonic()
    status = robot.learn(request)
    learned = status.state == LearningStatus.STATE_DONE
    seconds = round(time.monotonic() - began, 1)
    return {
        "announced": bool(unknown_id),
        "learned": learned,
        "why": status.message,
        "seconds": seconds,
    }


PLACES = ("soon", "later", "changed_light", "other_instances")


class Judge:
    """Measures the knowledge in use on frames that the robot is not shown."""

    def __init__(self, base: Path, films: Films, others: list[Shot], *, adapt: bool) -> None:
        self._base, self._adapt, self._cache = base, adapt, CachedFeatures()
        # Places, which are measured, and what is only shown before (None), in the order of time.
        self._parts: list[tuple[str | None, list[Shot]]] = [
            ("soon", scene_shots(film)[MET:]) for film in films.meeting
        ]
        later = [scene_shots(film) for film in films.later]
        self._parts += [("later", shots[: len(shots) // 2]) for shots in later]
        for film, shots in zip(films.other_light, later, strict=True):
            self._parts += [(None, scene_shots(film))] if adapt else []
            self._parts.append(("changed_light", shots[len(shots) // 2 :]))
        self._others = others

    def measure(self) -> dict[str, Any]:
        """Shares of each class's objects by outcome in each place; `known`: of all known ones.

        `names`: how often a thing of a class was given a name.
        """
        scenes: dict[str, list[Scene]] = {place: [] for place in PLACES}
        judged = Judged(self._base, self._cache)
        if self._adapt:
            judged.shift = LightShift(judged.dimension)
        for place, shots in self._parts:
            found = judged.scenes(shots)
            if place is not None:
                scenes[place] += found
        # Single pictures, each in a light of its own, are no stream.
        scenes["other_instances"] = Judged(self._base, self._cache).scenes(self._others)
        counts = {place: class_outcomes(found) for place, found in scenes.items()}
        all_scenes = [scene for found in scenes.values() for scene in found]
        everything = class_outcomes(all_scenes)
        of_known = [everything[label] for label in KNOWN if label in everything]
        right = sum(outcomes["right"] for outcomes in of_known)
        shares = {p: {c: _shares(o) for c, o in found.items()} for p, found in counts.items()}
        known = right / sum(sum(o.values()) for o in of_known)
        return shares | {"known": known, "names": names_given(all_scenes)}


def called(before: dict[str, Any], label: str) -> dict[str, float]:
    """What a class was called in the later film."""
    shares = before["later"][label]
    return {"unknown_before": shares["unknown"], "called_known_before": shares["wrong"]}


def names_given(scenes: Sequence[Scene]) -> Counter[tuple[str, str]]:
    """How often what is of a class was given a name; an empty name: unknown or not found."""
    return Counter(
        (label, scene.labels[match] if match >= 0 else "")
        for scene in scenes
        for label, match in zip(scene.truth_labels, scene.matches(), strict=True)
    )


def unlearned_named(names: Counter[tuple[str, str]], unlearned: Sequence[str]) -> float | None:
    """The share of sightings of untaught things that are given a name, if there are any."""
    of_unlearned = {pair: n for pair, n in names.items() if pair[0] in unlearned}
    named = sum(n for (_, name), n in of_unlearned.items() if name)
    return named / sum(of_unlearned.values()) if of_unlearned else None


def mistaken(names: Counter[tuple[str, str]], label: str) -> float:
    """The share of sightings of other things that are given this name."""
    others = {pair: n for pair, n in names.items() if pair[0] != label}
    return sum(n for (_, name), n in others.items() if name == label) / sum(others.values())


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

    names = ("met_unknown", "unknown_before", *PLACES, "light_at_the_end")
    names += ("at_the_end", "unlearned_named_before")
    parts = {name: mean(name) for name in (*names, "unlearned_named", "mistaken")}
    loss = 100 * (result["known_before"] - result["known_at_the_end"])
    told = ", ".join(f"{name} {100 * value:.0f} %" for name, value in parts.items())
    return f"{method}: {told}; known {100 * result['known_before']:.1f} %, lost {loss:.1f} points"


def draw(result: dict[str, Any], file: Path) -> None:
    """For every class what it was called before and after; the known classes over time."""
    import matplotlib.pyplot as plt

    bars = {
        "unknown before": ("unknown_before", "#e9a13b"),
        "recognised soon after": ("soon", "#1d6b40"),
        "lying elsewhere": ("later", "#2a9d5c"),
        "in another light": ("changed_light", "#7cc79b"),
        "other instances": ("other_instances", "#bfe3cd"),
    }
    classes = [entry for found in result.values() for entry in found["classes"].values()]
    bars = {n: b for n, b in bars.items() if any(c.get(b[0]) is not None for c in classes)}
    figure, axes = plt.subplots(
        len(result), 2, figsize=(10, 2.8 * len(result)), squeeze=False, layout="constrained",
        width_ratios=(2, 1),
    )  # fmt: skip
    for (left, right), (method, found) in zip(axes, result.items(), strict=True):
        classes = found["classes"]
        for number, (name, (key, colour)) in enumerate(bars.items()):
            heights = [100 * (entry.get(key) or 0) for entry in classes.values()]
            shift = 0.17 * (number - (len(bars) - 1) / 2)
            places = [place + shift for place in range(len(classes))]
            left.bar(places, heights, 0.17, color=colour, label=name)
        left.set_xticks(range(len(classes)), classes, fontsize=8)
        left.set_ylabel(f"{method}\nframes, %")
        left.set_ylim(0, 100)
        known = [found["known_before"], *(entry["known"] for entry in classes.values())]
        right.plot(range(len(known)), [100 * value for value in known], "o-", color="#35618f")
        right.set(ylim=(0, 100), xlabel="classes learned", ylabel="known objects named right, %")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    figure.savefig(file, dpi=100)


if __name__ == "__main__":
    main()
