# SPDX-License-Identifier: Apache-2.0
"""Learning with images from the web, good and bad: `python -m studies.web_images --help`.

Each class is learned by the shipped open-world model, as on the robot, from crops of one instance,
and from these with images of other instances: all of them right, or a share of them of other
classes, as they are or after the filter of `web_query`. It is then tested on other pictures.

`--crops` and `--test` are folders of `python -m newfound_sim generate detection` or of films of
`studies.bench_films`, from which the objects are cut; `--web` is a folder with `<class>/*.jpg`.
Writes `result.json`: for every condition and class the share of crops of each test folder that
are `recognised`, and what known classes `lost` on the held-out memory. Begun again, it goes on.
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

from newfound_core.detection.crops import crops_of
from newfound_core.detection.detector import Detector, DetectorConfig
from newfound_core.detection.proposals import WholeImage
from newfound_core.knowledge.contents import read_knowledge
from newfound_core.learning.job import Job, JobState, LearningOptions
from newfound_core.learning.job_folder import JobFolder
from newfound_core.learning.learn import finish_job
from newfound_training.detector.coco import read_pictures, read_rgb
from newfound_web.selection import inliers
from newfound_web.vision import Vision
from tests import ROOT

MARGIN = DetectorConfig().margin
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
    parser.add_argument("--crops", type=Path, required=True)
    parser.add_argument("--test", type=Path, nargs="+", required=True)
    parser.add_argument("--web", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models/sim_bench_bdoc")
    parser.add_argument("--classes", nargs="+", required=True)
    parser.add_argument("--noise", type=float, default=0.3, help="share of wrong images")
    parser.add_argument("--epochs", type=int, default=8)
    return parser.parse_args()


def material(arguments: argparse.Namespace, label: str, condition: str) -> dict[str, bytes]:
    """The images of a condition, by name."""
    crops = [encoded(crop) for crop in cut(arguments.crops, label)]
    web = web_images(arguments, label, condition) if condition != "crops" else []
    named = {f"crop_{n:03d}.jpg": image for n, image in enumerate(crops)}
    return named | {f"image_{n:03d}.jpg": image for n, image in enumerate(web)}


def web_images(arguments: argparse.Namespace, label: str, condition: str) -> list[bytes]:
    """What a search finds: with noise, some of it shows other classes."""
    right = sorted((arguments.web / label).glob("*.jpg"))
    chosen = random.Random(label)
    others_images = sorted(p for p in arguments.web.glob("*/*.jpg") if p.parent.name != label)
    count = 0 if condition == "web" else round(arguments.noise * len(right))
    found = [*chosen.sample(right, len(right) - count), *chosen.sample(others_images, count)]
    images = [path.read_bytes() for path in found]
    if condition != "filtered":
        return images
    vision = Vision()
    crop = cut(arguments.crops, label)[0]
    features = np.stack([vision.features(decoded(image)) for image in images])
    keep = inliers(features, np.asarray(vision.features(crop)))
    wrong = sum(kept for kept, path in zip(keep, found, strict=True) if path in others_images)
    print(f"the filter keeps {keep.sum()} of {len(keep)} images of {label}, {wrong} of them wrong")
    return [image for image, kept in zip(images, keep, strict=True) if kept]


def learn(arguments: argparse.Namespace, label: str, images: Mapping[str, bytes]) -> dict:
    """Learn as on the robot; how well the class is recognised, and what the others lost."""
    folder = arguments.out / "job"
    shutil.rmtree(folder, ignore_errors=True)
    options = LearningOptions(epochs=arguments.epochs, max_accuracy_loss=1.0, max_class_loss=1.0)
    knowledge = os.path.relpath(arguments.checkpoint.resolve(), folder.resolve())
    job = Job(label, knowledge, options)
    made = JobFolder.create(folder, job, images)
    result = finish_job(folder)
    assert result.state is JobState.DONE, result.message
    known = [a for a in result.accuracy.values() if a.before is not None]
    lost = float(np.mean([(a.before or 0.0) - a.after for a in known]))
    checkpoint = made.result_path
    right = {test.name: recognised(checkpoint, cut(test, label), label) for test in arguments.test}
    return {"images": len(images), "recognised": right, "lost": lost}


def recognised(checkpoint: Path, tested: Sequence[np.ndarray], label: str) -> float:
    """The share of crops that are given the label."""
    knowledge, detector = read_knowledge(checkpoint), Detector(WholeImage())
    said = [detector.detect(crop, None, knowledge)[0].label for crop in tested]
    return said.count(label) / len(said)


def table(found: Mapping[str, Mapping[str, Mapping]]) -> str:
    """Means over the classes."""
    lines = ["condition, then in percent: recognised in each test folder, lost by known classes"]
    for condition in CONDITIONS:
        values = list(found[condition].values())
        shares = [
            np.mean([v["recognised"][test] for v in values]) for test in values[0]["recognised"]
        ]
        lost = np.mean([v["lost"] for v in values])
        numbers = "   ".join(f"{100 * share:5.1f}" for share in (*shares, lost))
        lines.append(f"{condition:9} {numbers}")
    return "\n".join(lines)


def cut(folder: Path, label: str) -> list[np.ndarray]:
    """Everything of a class in the pictures of a folder, as the detector cuts it."""
    return [
        crop
        for picture in read_pictures(folder)
        if label in picture.labels
        for crop in crops_of(
            read_rgb(picture), picture.boxes[[name == label for name in picture.labels]], MARGIN
        )
    ]


def encoded(pixels: np.ndarray) -> bytes:
    """As a JPEG file."""
    return cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))[1].tobytes()


def decoded(image: bytes) -> np.ndarray:
    """RGB pixels."""
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(image, np.uint8), 1), cv2.COLOR_BGR2RGB)


if __name__ == "__main__":
    main()
