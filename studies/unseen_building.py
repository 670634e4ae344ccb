# SPDX-License-Identifier: Apache-2.0
"""Walks through a building nobody trained on: `python -m studies.unseen_building --help`.

`sim_camera` plays each walk; two place categorizers subscribe over DDS, one with a WBN checkpoint
and one with its BN baseline, both with the filter on, whose messages also hold what the image
alone says. The building must not be among the domains of the checkpoints.

Writes `walk.png`, the strip, and `result.json`: `accuracy` of `bn`, `bn_filtered`, `wbn` and
`wbn_filtered`, and `gain` of WBN over BN, each as mean over the walks and its standard error;
`walks` has the same of each walk, its `frames`, and `changes`, how often each changed its answer,
beside the true number.
"""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from newfound_core.models import load_model
from newfound_sim.clip_rendering import ClipOptions, render_clip
from newfound_sim.rooms.names import CATEGORIES, LIGHTINGS
from newfound_sim.scenario_file import load_scenario
from studies.playing import Moment, play

RATE = 2.0  # Hz: neighbouring frames of a faster film show nothing new
STAY = 4.0  # s in a room, half of it in the corridor between two
ROWS = ("bn", "bn_filtered", "wbn", "wbn_filtered")
COLOURS = "tab10"
Places = dict[str, list[str]]  # the true place of every frame, and what each row says


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    sources = arguments.source
    if not sources:
        sources = make_walks(arguments.out / "walks", arguments.building, arguments.walks)
    walks = [watch(source, arguments) for source in sources]
    result = summary([measure(places) for places in walks])
    result["settings"] = {k: str(v) for k, v in vars(arguments).items() if k != "out"}
    (arguments.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    draw(walks, arguments.out / "walk.png")
    print(json.dumps(result, indent=2))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--walks", type=int, default=6, help="how many to film")
    parser.add_argument("--building", default="townhouse")
    parser.add_argument("--source", type=Path, nargs="+", help="clips or scenarios instead")
    parser.add_argument("--bn", type=Path, required=True, help="checkpoint of method bn")
    parser.add_argument("--wbn", type=Path, required=True, help="checkpoint of method wbn or bsf")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=RATE, help="frames per second")
    parser.add_argument("--change-probability", type=float, default=0.2, help="in a second")
    return parser.parse_args()


def watch(source: Path, arguments: argparse.Namespace) -> Places:
    """What both nodes say on one walk."""
    chosen = {"filter": True, "filter_change_probability": arguments.change_probability}
    nodes = {
        name: ("place_categorizer", {"checkpoint": str(folder), **chosen})
        for name, folder in (("bn", arguments.bn), ("wbn", arguments.wbn))
    }
    moments = play(source, nodes, arguments.rate)
    check_unseen(moments, arguments.wbn)
    return table(moments)


def check_unseen(moments: Sequence[Moment], wbn: Path) -> None:
    """Refuse a walk through a building of training."""
    buildings = {moment.truth.domain.partition("_")[0] for moment in moments}
    known = {name.partition("_")[0] for name in load_model(wbn).metadata.domains}
    if buildings & known:
        raise SystemExit(f"{sorted(buildings & known)} was trained on: choose another building")


def table(moments: Sequence[Moment]) -> Places:
    """The true place of every frame, and what each row says."""
    rows = {"truth": [moment.truth.place for moment in moments]}
    for name in ("bn", "wbn"):
        answers = [moment.answers[name] for moment in moments]
        rows[name] = [a.labels[int(np.argmax(a.image_probabilities))] for a in answers]
        rows[f"{name}_filtered"] = [a.label for a in answers]
    return rows


def measure(places: Places) -> dict:
    """Accuracies, and how often the opinion changed."""
    truth = np.array(places["truth"])
    return {
        "frames": len(truth),
        "accuracy": {row: float((np.array(places[row]) == truth).mean()) for row in ROWS},
        "changes": {
            row: int((np.array(p[1:]) != np.array(p[:-1])).sum()) for row, p in places.items()
        },
    }


def summary(walks: Sequence[dict]) -> dict:
    """Means over the walks with their standard errors; frames of one walk are too alike."""
    found = {row: np.array([walk["accuracy"][row] for walk in walks]) for row in ROWS}
    gains = {"image": found["wbn"] - found["bn"]}
    gains["filtered"] = found["wbn_filtered"] - found["bn_filtered"]
    return {
        "accuracy": {row: mean_and_error(values) for row, values in found.items()},
        "gain": {name: mean_and_error(values) for name, values in gains.items()},
        "walks": list(walks),
    }


def mean_and_error(values: np.ndarray) -> list[float]:
    """The mean and its standard error, which a single value does not tell."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return [float(values.mean()), float(error)]


def draw(walks: Sequence[Places], file: Path) -> None:
    """The strip: one row for the truth and one for each opinion, walk after walk."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    rows = ("truth", *ROWS)
    joined = {row: [place for walk in walks for place in walk[row]] for row in rows}
    names = sorted({name for row in joined.values() for name in row})
    codes = np.array([[names.index(name) for name in joined[row]] for row in rows])
    figure, axes = plt.subplots(figsize=(10, 2.8), layout="constrained")
    axes.imshow(codes, aspect="auto", interpolation="nearest", cmap=COLOURS, vmin=0, vmax=9)
    for end in np.cumsum([len(walk["truth"]) for walk in walks])[:-1]:
        axes.axvline(end - 0.5, color="white", lw=3)
    shares = measure(joined)["accuracy"]
    told = [f"{row.replace('_', ', ')}  {shares[row]:.0%}" for row in ROWS]
    axes.set_yticks(range(len(rows)), ["truth", *told])
    axes.set_xlabel("frame" if len(walks) == 1 else f"frame, {len(walks)} walks")
    colour = plt.get_cmap(COLOURS)
    patches = [Patch(color=colour(number), label=name) for number, name in enumerate(names)]
    figure.legend(handles=patches, loc="outside upper center", ncols=len(names), frameon=False)
    figure.savefig(file, dpi=110)


def scenario(building: str, number: int) -> dict:
    """One walk: every kind of room in an order of its own, in the light whose turn it is."""
    rooms = [name for name in CATEGORIES if name != "corridor"]
    random.Random(number).shuffle(rooms)
    visits = []
    for name in rooms:
        visits.append({"category": "corridor", "room": number, "seconds": STAY / 2})
        visits.append({"category": name, "room": number, "seconds": STAY})
    return {
        "kind": "rooms",
        "rate": RATE,
        "size": [160, 120],
        "samples": 4,
        "seed": number,
        "building": building,
        "lighting": LIGHTINGS[number % len(LIGHTINGS)],
        "visits": visits,
    }


def make_walks(folder: Path, building: str, count: int) -> list[Path]:
    """The clips of so many walks; those that are there already are not filmed again."""
    folder.mkdir(parents=True, exist_ok=True)
    clips = []
    for number in range(count):
        file = folder / f"{building}_{number}.yaml"
        file.write_text(yaml.safe_dump(scenario(building, number), sort_keys=False))
        clips.append(folder / file.stem)
        render_clip(load_scenario(file), clips[-1], ClipOptions(depth=False), workers=1)
    return clips


if __name__ == "__main__":
    main()
