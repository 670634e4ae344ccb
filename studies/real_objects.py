# SPDX-License-Identifier: Apache-2.0
"""Real objects learned from a few photographs: named right, rejected, and how sure.

    python -m studies.real_objects --data grocery50 --out DIR

`models/blank` has seen the 30 choice classes and forgotten their names. Of the 20 others, ten are
learned from 1, 5 or 20 training images each and ten stay unknown; the test images, from other
shops, are then named or rejected. Five draws of classes and images. `models/groceries` knows all
50; unknown to it are the objects of `--unknown`, a folder of pictures of other things. Writes
`result.json` and `reliability.png`.
"""

import argparse
import copy
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from torch import Tensor

from newfound_core.calibration import calibration_error
from newfound_core.detection.crops import crop_features
from newfound_core.knowledge.contents import Knowledge, read_knowledge
from newfound_core.open_world.head import Decision, OpenWorldHead
from newfound_core.open_world.metrics import evaluate
from newfound_training.data import load_pixels, open_images
from newfound_training.openworld.dataset import reported_classes
from tests import ROOT

VIEWS, DRAWS, LEARNED = (1, 5, 20), 5, 10
CHOICE_CLASSES = 30  # as in the preset blank
Embeddings = dict[str, Tensor]  # by class


def embeddings(knowledge: Knowledge, data: Path, split: str) -> Embeddings:
    """Embeddings of every image of a split of `<split>/<class>/` folders."""
    images = open_images(str(data), "tree")
    pixels = load_pixels(images, knowledge.loaded.metadata.preprocessing.size)
    wanted = images.domains == images.domain_index(split)
    found = {}
    for number, name in enumerate(images.class_names):
        rows = np.flatnonzero(wanted & (images.labels == number))
        crops = [pixels[int(index)] for index in rows]
        found[name] = knowledge.model.shaped(crop_features(knowledge.loaded, crops))
    return found


def learn(head: OpenWorldHead, views: Embeddings, count: int, draw: int) -> OpenWorldHead:
    """A copy of the head that has learned classes from so many views each."""
    head, generator = copy.deepcopy(head), np.random.default_rng(draw)
    head.extend(list(views))
    drawn = [own[generator.permutation(len(own))[:count]] for own in views.values()]
    labels = torch.arange(len(drawn)).repeat_interleave(torch.tensor([len(own) for own in drawn]))
    head.refit([(torch.cat(drawn), labels)], features_changed=False)
    head.fit_added_thresholds(torch.cat(drawn)[:0], labels[:0], 0)
    return head


def decide(head: OpenWorldHead, shown: Embeddings) -> tuple[Tensor, Decision]:
    """True classes, -1 for the unknown, and decisions."""
    index = {label: number for number, label in enumerate(head.labels)}
    truth = torch.cat([torch.full((len(own),), index.get(k, -1)) for k, own in shown.items()])
    return truth, head.decide(torch.cat(list(shown.values())))


def blank_rows(data: Path) -> list[dict[str, Any]]:
    """Learning from a few views, starting with nothing."""
    knowledge = read_knowledge(ROOT / "models" / "blank")
    training, test = (embeddings(knowledge, data, split) for split in ("train", "test"))
    apart = reported_classes(sorted(training), CHOICE_CLASSES)
    rows = []
    for views in VIEWS:
        metrics, answers = [], []
        for draw in range(DRAWS):
            order = np.random.default_rng([draw, 15]).permutation(apart).tolist()
            known = {label: training[label] for label in order[:LEARNED]}
            head = learn(knowledge.model.head, known, views, draw)
            truth, decision = decide(head, {label: test[label] for label in order})
            metrics.append(evaluate(truth, decision))
            answers.append((decision.confidence, decision.label == truth))
        rows.append(_row(f"blank, {LEARNED} things from {views} images", metrics, answers))
    return rows


def groceries_row(data: Path, unknown: Embeddings) -> dict[str, Any]:
    """Fifty known things beside pictures of others."""
    knowledge = read_knowledge(ROOT / "models" / "groceries")
    test = embeddings(knowledge, data, "test")
    truth, decision = decide(knowledge.model.head, {**test, **unknown})
    answers = [(decision.confidence, decision.label == truth)]
    return _row("groceries, 50 known things", [evaluate(truth, decision)], answers)


def other_things(data: Path) -> Embeddings:
    """Embeddings of the labelled objects of COCO-format pictures, as unknown things."""
    from newfound_core.detection.crops import crops_of
    from newfound_training.detector.coco import read_pictures, read_rgb

    knowledge = read_knowledge(ROOT / "models" / "groceries")
    crops = []
    for picture in read_pictures(data, "instances.json", "images"):
        large = picture.boxes[(picture.boxes[:, 2:] - picture.boxes[:, :2]).min(1) >= 32]
        crops += crops_of(read_rgb(picture), large, 0.15)
    return {"": knowledge.model.shaped(crop_features(knowledge.loaded, crops))}


def _row(name: str, metrics: list[Any], answers: list[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    confidence = torch.cat([c for c, _ in answers])
    right = torch.cat([r for _, r in answers])

    def mean(field: str) -> float:
        return float(np.mean([getattr(m, field) for m in metrics]))

    return {
        "name": name,
        "nearest_right": mean("closed_world_without_rejection"),
        "named_right": mean("closed_world_with_rejection"),
        "unknown_rejected": mean("open_set"),
        "owr_harmonic": mean("owr_harmonic"),
        "auroc": mean("auroc"),
        "calibration_error": calibration_error(confidence, right),
        "reliability": _reliability(confidence, right),
    }


def _reliability(confidence: Tensor, right: Tensor, bins: int = 10) -> list[list[float]]:
    """Mean confidence, share of right answers and number, of each bin that has any."""
    number = (confidence * bins).long().clamp(0, bins - 1)
    return [
        [float(confidence[own].mean()), float(right[own].double().mean()), int(own.sum())]
        for index in range(bins)
        if (own := number == index).any()
    ]


def draw_reliability(rows: list[dict[str, Any]], path: Path) -> None:
    """Share of right answers over confidence, one line a row."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 4.6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linestyle=":")
    for row in rows:
        points = np.array(row["reliability"])
        label = f"{row['name']} (error {row['calibration_error']:.3f})"
        axes.plot(points[:, 0], points[:, 1], marker="o", markersize=4, label=label)
    axes.set(
        xlabel="score of the answer", ylabel="share of right answers", xlim=(0, 1), ylim=(0, 1)
    )
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, print the table, write result.json and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="grocery50")
    parser.add_argument("--unknown", type=Path, help="coco128: unknown things for the groceries")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = blank_rows(options.data)
    if options.unknown:
        rows.append(groceries_row(options.data, other_things(options.unknown)))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "result.json").write_text(json.dumps(rows, indent=2) + "\n")
    draw_reliability(rows, options.out / "reliability.png")
    names = ("nearest_right", "named_right", "unknown_rejected", "owr_harmonic", "auroc")
    print(f"| model | {' | '.join(names)} | calibration_error |\n|---|{'---|' * 6}")
    for row in rows:
        values = " | ".join(f"{100 * row[name]:.1f}" for name in names)
        print(f"| {row['name']} | {values} | {row['calibration_error']:.3f} |")


if __name__ == "__main__":
    main()
