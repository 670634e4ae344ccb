# SPDX-License-Identifier: Apache-2.0
"""A walk through a building nobody trained on: `python -m tests.unseen_building --help`.

`sim_camera` plays the walk; two place categorizers look on over DDS, one with a WBN checkpoint
and one with its BN baseline, both with the filter on, whose messages also hold what the image
alone says. The building must not be among the domains of the checkpoints.

Writes `result.json` (accuracy of `bn`, `bn_filtered`, `wbn`, `wbn_filtered`; `frames`; `changes`:
how often each changed its mind, beside the true number) and `walk.png`, the strip.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from newfound_core.models import load_model
from tests.harness import ROOT
from tests.playing import Moment, play

ROWS = ("bn", "bn_filtered", "wbn", "wbn_filtered")
COLOURS = "tab10"


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    checkpoints = {"bn": arguments.bn, "wbn": arguments.wbn}
    chosen = {"filter": True, "filter_change_probability": arguments.change_probability}
    nodes = {
        name: ("place_categorizer", {"checkpoint": str(folder), **chosen})
        for name, folder in checkpoints.items()
    }
    moments = play(arguments.source, nodes, arguments.rate)
    check_unseen(moments, arguments.wbn)
    places = table(moments)
    result = measure(places)
    result["settings"] = {k: str(v) for k, v in vars(arguments).items() if k != "out"}
    (arguments.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    draw(places, result["accuracy"], arguments.out / "walk.png")
    print(json.dumps(result, indent=2))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    walk = ROOT / "config/scenarios/rooms_walk.yaml"
    parser.add_argument("--source", type=Path, default=walk, help="scenario or clip of a walk")
    parser.add_argument("--bn", type=Path, required=True, help="checkpoint of method bn")
    parser.add_argument("--wbn", type=Path, required=True, help="checkpoint of method wbn or bsf")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=5.0, help="frames per second")
    parser.add_argument("--change-probability", type=float, default=0.2, help="in a second")
    return parser.parse_args()


def check_unseen(moments: Sequence[Moment], wbn: Path) -> None:
    """Refuse a walk through a building of training."""
    buildings = {moment.truth.domain.partition("_")[0] for moment in moments}
    known = {name.partition("_")[0] for name in load_model(wbn).metadata.domains}
    if buildings & known:
        raise SystemExit(f"{sorted(buildings & known)} was trained on: choose another building")


def table(moments: Sequence[Moment]) -> dict[str, list[str]]:
    """The true place of every frame, and what each row says."""
    rows = {"truth": [moment.truth.place for moment in moments]}
    for name in ("bn", "wbn"):
        answers = [moment.answers[name] for moment in moments]
        rows[name] = [a.labels[int(np.argmax(a.image_probabilities))] for a in answers]
        rows[f"{name}_filtered"] = [a.label for a in answers]
    return rows


def measure(places: dict[str, list[str]]) -> dict:
    """Accuracies, and how often the opinion changed."""
    truth = np.array(places["truth"])
    return {
        "frames": len(truth),
        "accuracy": {row: float((np.array(places[row]) == truth).mean()) for row in ROWS},
        "changes": {
            row: int((np.array(p[1:]) != np.array(p[:-1])).sum()) for row, p in places.items()
        },
    }


def draw(places: dict[str, list[str]], accuracy: dict[str, float], file: Path) -> None:
    """The strip: one row for the truth and one for each opinion, time to the right."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    names = sorted({name for row in places.values() for name in row})
    rows = ("truth", *ROWS)
    codes = np.array([[names.index(name) for name in places[row]] for row in rows])
    figure, axes = plt.subplots(figsize=(10, 2.8), layout="constrained")
    axes.imshow(codes, aspect="auto", interpolation="nearest", cmap=COLOURS, vmin=0, vmax=9)
    told = {"truth": "truth"} | {
        row: f"{row.replace('_', ', ')}  {accuracy[row]:.0%}" for row in ROWS
    }
    axes.set_yticks(range(len(rows)), [told[row] for row in rows])
    axes.set_xlabel("frame")
    colour = plt.get_cmap(COLOURS)
    patches = [Patch(color=colour(number), label=name) for number, name in enumerate(names)]
    figure.legend(handles=patches, loc="outside upper center", ncols=len(names), frameon=False)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
