# SPDX-License-Identifier: Apache-2.0
"""Are the simulated rooms a useful proxy? `python -m studies.proxy_rooms --out DIR`.

A linear classifier on frozen ImageNet features learns the place categories from three
buildings on a cloudy day. It is tested in rooms it has not seen: of those three buildings, of
the fourth, and of both under other light. Each building is the unseen one once. Rendering is
resumed if interrupted.

Writes `result.json` and `result.md` (the tables). Keys of `result.json`: `targets` has for each
unseen building `source` (accuracy in new rooms of the three buildings), `target` (in the
unseen one), `target_known` (in the same rooms, had it been among the buildings of training)
and for each other lighting `source_<lighting>` and `target_<lighting>`; `mean` averages them;
`confusion_target` counts [true][predicted] in unseen buildings, in the order of `categories`.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np

from newfound_sim.rooms import BUILDINGS, CATEGORIES, LIGHTINGS, domain_name
from newfound_sim.rooms.dataset import RoomRequest, generate_rooms

TRAINING_LIGHT = "cloudy"
OTHER_LIGHTS = [light for light in LIGHTINGS if light != TRAINING_LIGHT]


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    train = render(arguments, "train", [TRAINING_LIGHT], arguments.train)
    test = render(arguments, "test", [TRAINING_LIGHT, *OTHER_LIGHTS], arguments.test)
    result = measure(train, test)
    result["settings"] = {k: v for k, v in vars(arguments).items() if k not in ("out", "workers")}
    (arguments.out / "result.json").write_text(json.dumps(result, indent=2))
    (arguments.out / "result.md").write_text(tables(result))
    print(tables(result))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--train", type=int, default=24, help="images per category and building")
    parser.add_argument("--test", type=int, default=9, help="images per category and domain")
    parser.add_argument("--views", type=int, default=3, help="images of each room")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def render(arguments: argparse.Namespace, split: str, lights: list[str], images: int) -> dict:
    """Features and labels of each domain; the two splits show different rooms."""
    folder = arguments.out / split
    domains = [domain_name(building, light) for building in BUILDINGS for light in lights]
    request = RoomRequest(
        domains=tuple(domains),
        classes=CATEGORIES,
        images=images,
        views=arguments.views,
        size=arguments.size,
        samples=arguments.samples,
        seed=arguments.seed * 2 + (split == "test"),
    )
    generate_rooms(folder, request, arguments.workers)
    paths = [
        folder / domain / category / f"{number:05d}.jpg"
        for domain in domains
        for category in CATEGORIES
        for number in range(images)
    ]
    from studies.frozen_features import features  # not above: rendering processes need no torch

    rows = features(paths, arguments.size, f"features of {split}")
    return dict(zip(domains, np.split(rows, len(domains)), strict=True))


def measure(train: dict, test: dict) -> dict:
    targets, confusion = {}, np.zeros((len(CATEGORIES), len(CATEGORIES)), int)
    with_all = classifier(train, BUILDINGS)
    for target in BUILDINGS:
        sources = [building for building in BUILDINGS if building != target]
        classify = classifier(train, sources)
        row = {
            "source": accuracy(classify, test, sources, TRAINING_LIGHT),
            "target": accuracy(classify, test, [target], TRAINING_LIGHT),
            "target_known": accuracy(with_all, test, [target], TRAINING_LIGHT),
        }
        for light in OTHER_LIGHTS:
            row[f"source_{light}"] = accuracy(classify, test, sources, light)
            row[f"target_{light}"] = accuracy(classify, test, [target], light)
        targets[target] = row
        rows = test[domain_name(target, TRAINING_LIGHT)]
        np.add.at(confusion, (labels(rows), classify(rows)), 1)
    keys = next(iter(targets.values()))
    return {
        "targets": targets,
        "mean": {key: float(np.mean([row[key] for row in targets.values()])) for key in keys},
        "categories": CATEGORIES,
        "confusion_target": confusion.tolist(),
    }


def classifier(train: dict, buildings):
    from studies.frozen_features import train_linear

    rows = [train[domain_name(building, TRAINING_LIGHT)] for building in buildings]
    truth = np.concatenate([labels(r) for r in rows])
    return train_linear(np.concatenate(rows), truth, len(CATEGORIES))


def labels(rows: np.ndarray) -> np.ndarray:
    """The rows of a domain are in the order of the categories, equally many of each."""
    return np.repeat(np.arange(len(CATEGORIES)), len(rows) // len(CATEGORIES))


def accuracy(classify, test: dict, buildings, light: str) -> float:
    rows = [test[domain_name(building, light)] for building in buildings]
    return float(np.mean([(classify(r) == labels(r)).mean() for r in rows]))


def tables(result: dict) -> str:
    heads = ["new rooms, known buildings", "unseen building", "the same, had it been known"]
    lines = [f"| unseen building | {' | '.join(heads)} |", "|---" * 4 + "|"]
    everything = {**result["targets"], "mean": result["mean"]}
    for name, row in everything.items():
        cells = [f"{row[key]:.1%}" for key in ("source", "target", "target_known")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| light | known buildings | unseen building |", "|---|---|---|"]
    mean = result["mean"]
    lines.append(
        f"| {TRAINING_LIGHT} (as trained) | {mean['source']:.1%} | {mean['target']:.1%} |"
    )
    for light in OTHER_LIGHTS:
        known, unseen = mean[f"source_{light}"], mean[f"target_{light}"]
        lines.append(f"| {light} | {known:.1%} | {unseen:.1%} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
