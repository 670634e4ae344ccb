# SPDX-License-Identifier: Apache-2.0
"""A light that is switched to and fro: `python -m studies.alternating_light --help`.

`sim_camera` shows pictures of single objects that alternate between two domains every --every
frames, such as a robot that drives to and fro between two halls. One adaptive classifier for each
--models name=checkpoint subscribes over DDS; all have the same options. --metadata field=value are
parameters `metadata.<field>` of models with a graph of domains: give what stays the same.

`--data` is a folder of `python -m newfound_sim generate workbench` with other instances than the
models were made from. Writes `alternating_light.png` and `result.json`: for each model the
accuracy over `all` frames, `after` the second switch, and by place in a stretch of one light
(`by_place`), means over all --orders; `updates` of each run; `frames` that all models answered to.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from newfound_core.models import load_model
from studies.light_change import correct, lit, pictures
from studies.playing import Moment, make_clip, play
from tests import ROOT


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    models = dict(text.split("=", 1) for text in arguments.models)
    runs = [run(arguments, models, order) for order in arguments.orders]
    result = {
        "models": {name: measure(runs, name, arguments.every) for name in models},
        "frames": [len(moments) for moments in runs],
        "settings": {k: str(v) for k, v in vars(arguments).items() if k != "out"},
    }
    (arguments.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    draw(runs, list(models), arguments.every, arguments.out / "alternating_light.png")
    print(json.dumps({n: (m["all"], m["after"]) for n, m in result["models"].items()}, indent=2))


def run(arguments: argparse.Namespace, models: Mapping[str, str], order: int) -> list[Moment]:
    """One order of the pictures, seen by all models at once."""
    labels = load_model(next(iter(models.values()))).labels
    sides = [
        lit(pictures(arguments.data / domain, labels, f"{order}, {domain}"), domain)
        for domain in arguments.domains
    ]
    shown = []
    for stretch in range(arguments.switches + 1):
        side, begin = sides[stretch % 2], stretch // 2 * arguments.every
        shown += [side[(begin + k) % len(side)] for k in range(arguments.every)]
    clip = make_clip(arguments.out / "clip", shown)
    given = dict(text.split("=", 1) for text in arguments.metadata)
    nodes: dict[str, tuple[str, dict]] = {}
    for folder in models.values():
        has_graph = load_model(folder).metadata.method == "adagraph"
        metadata = {f"metadata.{field}": value for field, value in given.items()}
        chosen = {"checkpoint": str(Path(folder).resolve()), **(metadata if has_graph else {})}
        nodes[f"model_{len(nodes)}"] = ("adaptive_classifier", chosen)
    moments = play(clip, nodes, arguments.rate)
    names = dict(zip(nodes, models, strict=True))
    return [Moment(m.truth, {names[n]: a for n, a in m.answers.items()}) for m in moments]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=[f"ONDA={ROOT / 'models/sim_workbench'}"])
    parser.add_argument("--metadata", nargs="*", default=[], help="field=value")
    domains = ["cloudy_kinect_white", "directed_kinect_white"]
    parser.add_argument("--domains", nargs=2, default=domains)
    parser.add_argument("--every", type=int, default=30, help="frames in one light")
    parser.add_argument("--switches", type=int, default=5)
    parser.add_argument("--rate", type=float, default=4.0, help="frames per second")
    parser.add_argument("--orders", type=int, nargs="+", default=[0, 1, 2], help="of the pictures")
    parser.add_argument("--out", type=Path, default=Path("alternating_light"))
    return parser.parse_args()


def measure(runs: Sequence[Sequence[Moment]], name: str, every: int) -> dict:
    """Accuracy over all frames, after the second switch, and by place in a stretch."""
    right = [correct(moments, name) for moments in runs]
    places = [np.array([moment.truth.frame for moment in moments]) for moments in runs]
    of_place = np.concatenate(places) % every
    every_frame = np.concatenate(right)
    late = np.concatenate(places) >= 2 * every
    return {
        "all": float(every_frame.mean()),
        "after": float(every_frame[late].mean()) if late.any() else None,
        "by_place": [
            float(every_frame[of_place == place].mean()) if (of_place == place).any() else None
            for place in range(every)
        ],
        "updates": [int(moments[-1].answers[name].adaptation_updates) for moments in runs],
    }


def draw(runs: Sequence[Sequence[Moment]], names: Sequence[str], every: int, file: Path) -> None:
    """Accuracy along the stream, mean over runs and five frames, with the switches."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    last = max(moment.truth.frame for moments in runs for moment in moments) + 1
    for name in names:
        hits, counts = np.zeros(last), np.zeros(last)
        for moments in runs:
            frames = np.array([moment.truth.frame for moment in moments])
            hits[frames] += correct(moments, name)
            counts[frames] += 1
        window = np.ones(5)
        line = np.convolve(hits, window, "valid") / np.maximum(
            np.convolve(counts, window, "valid"), 1
        )
        axes.plot(np.arange(len(line)) + 3, line, label=name)
    for switch in range(every, last, every):
        axes.axvline(switch, color="orange", lw=3, alpha=0.4)
    axes.set(xlabel="frame", ylabel="accuracy, mean over 5 frames and all runs", ylim=(0, 1))
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=100)


if __name__ == "__main__":
    main()
