# SPDX-License-Identifier: Apache-2.0
"""Photographs of what no model knows, through every model: is anyone confidently wrong?

    python -m studies.strange_photographs --photos DIR

DIR holds photographs of any kind. Each goes through the classifiers as it is, and through the
open-world models as one object. Prints the answer of each with its confidence.
"""

import argparse
from pathlib import Path

import torch

from newfound_core.detection.crops import crop_features
from newfound_core.knowledge.contents import read_knowledge
from newfound_core.models import load_model
from newfound_training.data.images import image_files
from tests import ROOT

CLASSIFIERS = ("sim_workbench", "rooms", "sim_rooms_wbn")
OPEN_WORLD = ("blank", "groceries", "sim_bench_bdoc")


@torch.no_grad()
def classified(name: str, images: list) -> list[str]:
    """Answers of a classifier of objects or places."""
    loaded = load_model(ROOT / "models" / name)
    output = loaded.model(loaded.prepare(images))
    logits = output if isinstance(output, torch.Tensor) else output.logits
    labels = (*loaded.labels, "unknown")
    confidence, answer = logits.softmax(1).max(1)
    return [f"{labels[i]} {c:.2f}" for c, i in zip(confidence, answer, strict=True)]


def recognised(name: str, images: list) -> list[str]:
    """Answers of an open-world model."""
    knowledge = read_knowledge(ROOT / "models" / name)
    model = knowledge.model
    decision = model.head.decide(model.shaped(crop_features(knowledge.loaded, images)))
    labels = (*knowledge.labels, "unknown")
    return [
        f"{labels[i]} {c:.2f}" for i, c in zip(decision.label, decision.confidence, strict=True)
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path, required=True)
    folder = parser.parse_args().photos
    files = list(image_files(folder, folder))
    images = [file.read() for file in files]
    columns = {name: classified(name, images) for name in CLASSIFIERS}
    columns |= {name: recognised(name, images) for name in OPEN_WORLD}
    print(f"| photograph | {' | '.join(columns)} |\n|{'---|' * (1 + len(columns))}")
    for row, file in enumerate(files):
        answers = " | ".join(column[row] for column in columns.values())
        print(f"| {Path(file.name).stem} | {answers} |")


if __name__ == "__main__":
    main()
