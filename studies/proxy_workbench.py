# SPDX-License-Identifier: Apache-2.0
"""Is the simulated workbench a useful proxy? `python -m studies.proxy_workbench --out DIR`.

A linear classifier on frozen ImageNet features learns from one domain and is tested on all
twelve, with instances it has not seen. Accuracy should fall with every further condition
(illumination, camera, background) that changes. Rendering is resumed if interrupted.

Writes `result.json` (accuracy_by_changes: mean, standard error and pairs for 0 to 3 changed
conditions; accuracy_by_condition: mean with only that one changed; accuracy: source domain to
target domain) and `result.md` (the tables).
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np

from newfound_sim.generate import CropRequest, find_classes, generate_crops
from newfound_sim.workbench import DOMAINS, Domain

CLASSES = [
    *["claw_hammer", "ball_peen_hammer", "mallet", "combination_pliers", "needle_nose_pliers"],
    *["water_pump_pliers", "flat_screwdriver", "stubby_screwdriver", "precision_screwdriver"],
    *["banana", "bottle", "can", "clamp", "flashlight", "mug", "paint_brush", "scissors"],
    *["spoon", "tape_roll", "wrench"],
]
CONDITIONS = ("illumination", "camera", "background")


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    classes = find_classes(arguments.classes)
    data = {}
    for split, images in (("train", arguments.train), ("test", arguments.test)):
        folder = arguments.out / split
        seed = arguments.seed * 2 + (split == "test")  # other seeds show other instances
        request = CropRequest(
            tuple(DOMAINS), tuple(classes), images, arguments.size, arguments.samples, seed
        )
        generate_crops(folder, request, arguments.workers)
        data[split] = load(folder, classes, arguments.size, images)
    result = summarise(accuracies(data, len(classes)))
    result["settings"] = {k: v for k, v in vars(arguments).items() if k not in ("out", "workers")}
    (arguments.out / "result.json").write_text(json.dumps(result, indent=2))
    (arguments.out / "result.md").write_text(table(result))
    print(table(result))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--classes", nargs="+", default=CLASSES)
    parser.add_argument("--train", type=int, default=8, help="images per class and domain")
    parser.add_argument("--test", type=int, default=4, help="images per class and domain")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def load(folder: Path, classes: list[str], size: int, images: int) -> dict:
    """Features and labels of each domain."""
    from studies.frozen_features import features  # not above: rendering processes need no torch

    paths = [
        folder / domain / label / f"{number:05d}.jpg"
        for domain in DOMAINS
        for label in classes
        for number in range(images)
    ]
    rows = features(paths, size, f"features of {folder.name}")
    labels = np.repeat(np.arange(len(classes)), images)
    return {d: (x, labels) for d, x in zip(DOMAINS, np.split(rows, len(DOMAINS)), strict=True)}


def accuracies(data: dict, classes: int) -> dict[str, dict[str, float]]:
    """From every source domain to every target domain."""
    from studies.frozen_features import train_linear

    found = {}
    for source in DOMAINS:
        classify = train_linear(*data["train"][source], classes)
        found[source] = {
            target: float((classify(x) == y).mean()) for target, (x, y) in data["test"].items()
        }
    return found


def summarise(accuracy: dict[str, dict[str, float]]) -> dict:
    pairs = [(DOMAINS[a], DOMAINS[b], accuracy[a][b]) for a in DOMAINS for b in DOMAINS]
    by_changes = {}
    for count in range(4):
        values = [value for a, b, value in pairs if a.changes(b) == count]
        error = float(np.std(values) / np.sqrt(len(values)))
        by_changes[count] = {"mean": float(np.mean(values)), "error": error, "pairs": len(values)}
    by_condition = {
        name: float(np.mean([value for a, b, value in pairs if only(name, a, b)]))
        for name in CONDITIONS
    }
    return {
        "accuracy_by_changes": by_changes,
        "accuracy_by_condition": by_condition,
        "accuracy": accuracy,
    }


def only(condition: str, a: Domain, b: Domain) -> bool:
    return a.changes(b) == 1 and getattr(a, condition) != getattr(b, condition)


def table(result: dict) -> str:
    lines = ["| conditions changed | accuracy | pairs of domains |", "|---|---|---|"]
    for count, row in result["accuracy_by_changes"].items():
        lines.append(f"| {count} | {row['mean']:.1%} ± {row['error']:.1%} | {row['pairs']} |")
    lines += ["", "| only this changed | accuracy |", "|---|---|"]
    lines += [f"| {name} | {v:.1%} |" for name, v in result["accuracy_by_condition"].items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
