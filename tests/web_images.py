# SPDX-License-Identifier: Apache-2.0
"""Learning with images from the web, good and bad: `python -m tests.web_images --help`.

Each class is learned by the shipped open-world model, as on the robot, from views of one instance
(`crops`), and from these with images of other instances (`web`): all of them right, or a share of
them of other classes, as they are or after the filter of `web_query`. It is then tested on
instances that were neither.

`--views` is a folder of `python -m newfound_sim generate workbench`: number 0 of every domain are
the crops, the others the test. `--web` is a folder with `<class>/*.jpg`. Writes `result.json`: for
every condition and class the share of test images that are `recognised`, and what known classes
`lost` on the held-out memory. Begun again, it goes on.
"""

import argparse
import json
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np

from newfound_core.detection.detector import Detector
from newfound_core.detection.whole_image import WholeImage
from newfound_core.knowledge.contents import read_knowledge
from newfound_core.open_world import job as jobs
from newfound_training.openworld.learn import finish_job
from newfound_web.outliers import typical
from newfound_web.vision import Vision
from tests.harness import ROOT

CONDITIONS = ("crops", "web", "noisy", "filtered")


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "result.json"
    found: dict = json.loads(file.read_text()) if file.exists() else {}
    for label in arguments.classes:
        for condition in CONDITIONS:
            if label in found.get(condition, {}):
                continue
            images = material(arguments, label, condition)
            found.setdefault(condition, {})[label] = learn(arguments, label, images)
            file.write_text(json.dumps(found, indent=1) + "\n")
            print(condition, label, found[condition][label], flush=True)
    print(table(found))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--views", type=Path, required=True)
    parser.add_argument("--web", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models/bench_bdoc")
    parser.add_argument("--classes", nargs="+", required=True)
    parser.add_argument("--noise", type=float, default=0.3, help="share of wrong images")
    parser.add_argument("--epochs", type=int, default=8)
    return parser.parse_args()


def material(arguments: argparse.Namespace, label: str, condition: str) -> dict[str, bytes]:
    """The images of a condition, by name."""
    crops = [path.read_bytes() for path in views(arguments.views, label) if number(path) == 0]
    web = web_images(arguments, label, condition) if condition != "crops" else []
    named = {f"crop_{n:03d}.jpg": image for n, image in enumerate(crops)}
    return named | {f"image_{n:03d}.jpg": image for n, image in enumerate(web)}


def web_images(arguments: argparse.Namespace, label: str, condition: str) -> list[bytes]:
    """What a search finds: with noise, some of it shows other classes."""
    right = sorted((arguments.web / label).glob("*.jpg"))
    others = [c for c in arguments.classes if c != label]
    chosen = random.Random(label)
    strangers = [p for c in others for p in sorted((arguments.web / c).glob("*.jpg"))]
    count = 0 if condition == "web" else round(arguments.noise * len(right))
    found = [*chosen.sample(right, len(right) - count), *chosen.sample(strangers, count)]
    images = [path.read_bytes() for path in found]
    if condition != "filtered":
        return images
    vision = Vision()
    crop = next(path for path in views(arguments.views, label) if number(path) == 0)
    features = np.stack([vision.features(decoded(image)) for image in images])
    keep = typical(features, np.asarray(vision.features(decoded(crop.read_bytes()))))
    wrong = sum(kept for kept, path in zip(keep, found, strict=True) if path in strangers)
    print(f"the filter keeps {keep.sum()} of {len(keep)} images of {label}, {wrong} of them wrong")
    return [image for image, kept in zip(images, keep, strict=True) if kept]


def learn(arguments: argparse.Namespace, label: str, images: Mapping[str, bytes]) -> dict:
    """Learn as on the robot; how well the class is recognised, and what the others lost."""
    folder = arguments.out / "job"
    shutil.rmtree(folder, ignore_errors=True)
    options = jobs.LearningOptions(epochs=arguments.epochs, max_accuracy_loss=1.0)
    knowledge = os.path.relpath(arguments.checkpoint.resolve(), folder.resolve())
    job = jobs.Job(label, knowledge, options, {})
    jobs.create_job(folder, job, images)
    result = finish_job(folder)
    assert result.learned, result.message
    known = [a for a in result.accuracy.values() if a.before is not None]
    lost = float(np.mean([(a.before or 0.0) - a.after for a in known]))
    tested = [path for path in views(arguments.views, label) if number(path) > 0]
    right = recognised(folder / jobs.CHECKPOINT_NAME, tested, label)
    return {"images": len(images), "recognised": right, "lost": lost, "tested": len(tested)}


def recognised(checkpoint: Path, tested: Sequence[Path], label: str) -> float:
    """The share of pictures that are given the label."""
    knowledge, detector = read_knowledge(checkpoint), Detector(WholeImage())
    said = [detector.detect(decoded(p.read_bytes()), None, knowledge)[0].label for p in tested]
    return said.count(label) / len(said)


def table(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Means over the classes."""
    lines = ["condition   recognised   known classes lost"]
    for condition in CONDITIONS:
        values = list(found[condition].values())
        right, lost = (np.mean([v[key] for v in values]) for key in ("recognised", "lost"))
        lines.append(f"{condition:11} {100 * right:8.1f} %   {100 * lost:8.1f} points")
    return "\n".join(lines)


def views(folder: Path, label: str) -> list[Path]:
    """All pictures of a class, of every domain."""
    return sorted(folder.glob(f"*/{label}/*.jpg"))


def number(path: Path) -> int:
    """Of the instance."""
    return int(path.stem)


def decoded(image: bytes) -> np.ndarray:
    """RGB pixels."""
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(image, np.uint8), 1), cv2.COLOR_BGR2RGB)


if __name__ == "__main__":
    main()
