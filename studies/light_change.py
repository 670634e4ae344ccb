# SPDX-License-Identifier: Apache-2.0
"""The light changes half-way: `python -m studies.light_change --help`.

`sim_camera` shows pictures of single objects, first of one domain, then of another in which only
the light differs; two adaptive classifiers subscribe over DDS, one adapting, one frozen. `--data`
is a folder of `python -m newfound_sim generate workbench` with other instances than the model was
trained on (another --seed). Pictures come in random order, each once in the first light and
--passes times in the second; each of --orders is a run.

Writes `light_change.png` and `result.json`: `table` has, for `adapting` and `frozen`, mean and
standard deviation over the runs of the accuracy `before` the change, in the `window` frames right
`after` it, and in the second half of all frames after it, `recovered`; `runs` has the same of each
run and `right`, a digit for every frame, with the `frames` used and the `updates` made.

With `--clip FOLDER` it only writes the clip `light_change` of newfound_sim there: --frames
pictures in either light, saved again at JPEG quality 80.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from newfound_core.models import load_model
from newfound_sim.clip import SeenObject, Truth
from studies.playing import Moment, make_clip, play
from tests import ROOT

NODES = ("adapting", "frozen")
COLOURS = {"adapting": "C0", "frozen": "C3"}


def main() -> None:
    arguments = parse()
    if arguments.clip:
        save_clip(arguments)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    runs = [run(arguments, order) for order in arguments.orders]
    results = [measure(moments, arguments.before, arguments.window) for moments in runs]
    result = {
        "table": summary(results),
        "settings": {k: str(v) for k, v in vars(arguments).items() if k != "out"},
        "runs": results,
    }
    (arguments.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    draw(runs, arguments.before, arguments.window, arguments.out / "light_change.png")
    print(json.dumps(result["table"], indent=2))


def run(arguments: argparse.Namespace, order: int) -> list[Moment]:
    """All pictures of the one light, then all of the other, in one order of them."""
    labels = load_model(arguments.checkpoint).labels
    shown = [
        picture
        for number, domain in enumerate((arguments.before, *[arguments.after] * arguments.passes))
        for picture in lit(pictures(arguments.data / domain, labels, f"{order}, {number}"), domain)
    ]
    clip = make_clip(arguments.out / "clip", shown)
    adaptation = {"estimator": arguments.estimator, "balanced": arguments.estimator == "batch"}
    return watch(clip, arguments.checkpoint, arguments.rate, **adaptation)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models/sim_workbench")
    parser.add_argument("--out", type=Path, default=Path("light_change"))
    parser.add_argument("--clip", type=Path, help="folder of a clip to write, instead of a run")
    parser.add_argument("--frames", type=int, nargs=2, default=[72, 216], help="of that clip")
    parser.add_argument("--before", default="artificial_kinect_white", help="domain")
    parser.add_argument("--after", default="cloudy_kinect_white", help="domain")
    parser.add_argument("--estimator", choices=("batch", "streaming"), default="batch")
    parser.add_argument("--rate", type=float, default=5.0, help="frames per second")
    parser.add_argument("--window", type=int, default=60, help="frames of one number")
    parser.add_argument("--passes", type=int, default=2, help="through the second light")
    parser.add_argument("--orders", type=int, nargs="+", default=[0, 1, 2], help="of the pictures")
    return parser.parse_args()


def save_clip(arguments: argparse.Namespace) -> None:
    """Write the clip that newfound_sim ships: each picture once, in random order."""
    labels = load_model(arguments.checkpoint).labels
    lights = zip((arguments.before, arguments.after), arguments.frames, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        shown: list[tuple[Path, Truth]] = []
        for domain, count in lights:
            for path, truth in lit(pictures(arguments.data / domain, labels, 0)[:count], domain):
                small = Path(folder) / f"{len(shown):05d}.jpg"
                Image.open(path).save(small, quality=80, optimize=True)
                shown.append((small, truth))
        make_clip(arguments.clip, shown)
    print(f"{len(shown)} frames in {arguments.clip}")


def pictures(folder: Path, labels: Sequence[str], seed: str | int) -> list[tuple[Path, str]]:
    """The pictures of one domain with their labels, in random order."""
    found = [(path, label) for label in labels for path in sorted((folder / label).glob("*.jpg"))]
    if not found:
        raise SystemExit(f"{folder} has no pictures of {', '.join(labels)}")
    random.Random(seed).shuffle(found)
    return found


def lit(part: Sequence[tuple[Path, str]], domain: str) -> list[tuple[Path, Truth]]:
    """The pictures with their truth: one object that fills the image, in the light of a domain."""
    light = domain.partition("_")[0]
    return [
        (path, Truth((SeenObject(1, label, (0, 0, 1, 1), 1.0),), "", domain, light, light))
        for path, label in part
    ]


def watch(clip: Path, checkpoint: Path, rate: float, **options: object) -> list[Moment]:
    """What an adapting node and a frozen one say of every frame."""
    shared = {"checkpoint": str(checkpoint), **options}
    nodes = {
        name: ("adaptive_classifier", shared | {"freeze": name == "frozen"}) for name in NODES
    }
    return play(clip, nodes, rate)


def correct(moments: Sequence[Moment], name: str) -> np.ndarray:
    """For each frame whether the node was right."""
    return np.array([m.answers[name].nearest_label == m.truth.objects[0].label for m in moments])


def measure(moments: Sequence[Moment], before: str, window: int) -> dict:
    """Accuracies before the change, right after it, and once there was time to adapt."""
    change = sum(moment.truth.domain == before for moment in moments)
    result: dict = {"window": window, "frames": len(moments), "frames_before": change}
    for name in NODES:
        right = correct(moments, name)
        result[name] = {
            "before": float(right[:change].mean()),
            "after": float(right[change : change + window].mean()),
            "recovered": float(right[(change + len(right)) // 2 :].mean()),
            "right": "".join(str(int(value)) for value in right),
        }
    result["updates"] = moments[-1].answers["adapting"].adaptation_updates
    return result


def summary(results: Sequence[dict]) -> dict:
    """Mean and standard deviation of each accuracy over the runs."""
    table: dict = {}
    for name in NODES:
        for when in ("before", "after", "recovered"):
            values = [result[name][when] for result in results]
            table.setdefault(name, {})[when] = [float(np.mean(values)), float(np.std(values))]
    return table


def draw(runs: Sequence[Sequence[Moment]], before: str, window: int, file: Path) -> None:
    """Accuracy over the last frames, for both nodes, one line for each run."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    for number, moments in enumerate(runs):
        change = sum(moment.truth.domain == before for moment in moments)
        for name in NODES:
            right = correct(moments, name)
            # Windows do not reach over the change: each side is averaged on its own.
            for start, part in ((0, right[:change]), (change, right[change:])):
                at, line = running_mean(part, window)
                label = name if (start, number) == (0, 0) else None
                axes.plot(start + at, line, color=COLOURS[name], label=label, alpha=0.7)
        label = None if number else "the light changes"
        axes.axvline(change, color="orange", lw=6, alpha=0.4 / len(runs), label=label)
    axes.set(xlabel="frame", ylabel=f"accuracy of the last {window} frames", ylim=(0, 1))
    axes.legend(loc="lower left")
    figure.savefig(file, dpi=100)


def running_mean(part: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of frames, and the mean of the last ones up to each."""
    sums = np.concatenate([[0], np.cumsum(part)])
    at = np.arange(1, len(part) + 1)
    first = np.maximum(at - window, 0)
    line = (sums[at] - sums[first]) / (at - first)
    skip = min(10, len(part) - 1)  # the mean of a few frames says nothing
    return at[skip:], line[skip:]


if __name__ == "__main__":
    main()
