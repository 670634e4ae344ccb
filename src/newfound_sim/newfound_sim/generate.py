# SPDX-License-Identifier: Apache-2.0
"""Workbench data sets on disk: folders of labelled crops, and detection sets. Resumable."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from newfound_core.storage import read_json, write_bytes, write_json
from newfound_sim.annotations import coco_annotations, coco_dataset
from newfound_sim.arranging import arrange, bench_in, close_up, overview
from newfound_sim.camera import CameraModel
from newfound_sim.errors import DatasetError
from newfound_sim.objects import CLASSES, TOOLS
from newfound_sim.production import (
    clean,
    millimetres,
    produce,
    stream,
    write_depth,
    write_jpeg,
)
from newfound_sim.rendering import Frame
from newfound_sim.workbench import DOMAINS, PlacedObject, camera_model, find_domains, render_bench

REQUEST = "request.json"
# A crop is cut from an image a few times its size, so the lens blurs it that much more.
CROP_OF = 2.5


def find_classes(names: list[str]) -> list[str]:
    """Resolve class names; `all` and `tools` name groups."""
    groups = {"all": list(CLASSES), "tools": list(TOOLS)}
    wanted = groups.get(names[0], names) if len(names) == 1 else names
    for name in wanted:
        if name not in CLASSES:
            raise DatasetError(f"unknown class '{name}'; use all, tools, or: {', '.join(CLASSES)}")
    return list(wanted)


@dataclass(frozen=True)
class CropRequest:
    """Square pictures of single objects: `<domain>/<class>/00000.jpg` and so on."""

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    images: int  # per class and domain; each shows another instance
    size: int = 128
    samples: int = 8
    seed: int = 0  # other seeds show other instances: use two for training and testing

    def __post_init__(self) -> None:
        find_domains(self.domains)
        find_classes(list(self.classes))
        _at_least(1, images=self.images, samples=self.samples)
        _at_least(16, size=self.size)


@dataclass(frozen=True)
class DetectionRequest:
    """Pictures of the whole bench with depth, boxes and masks: `<domain>/images`, COCO JSON."""

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    images: int  # per domain
    width: int = 320
    height: int = 240
    most_objects: int = 6
    fewest_objects: int = 1
    samples: int = 12
    seed: int = 0

    def __post_init__(self) -> None:
        find_domains(self.domains)
        find_classes(list(self.classes))
        _at_least(1, images=self.images, samples=self.samples, fewest_objects=self.fewest_objects)
        _at_least(self.fewest_objects, most_objects=self.most_objects)
        _at_least(16, width=self.width, height=self.height)


def _at_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise DatasetError(f"{name} must be at least {least}, got {number}")


def record_request(folder: Path, request: Any) -> None:
    """Write the request into its folder; refuse a folder that was made for another one."""
    wanted = json.loads(json.dumps({"kind": type(request).__name__, **asdict(request)}))
    path = folder / REQUEST
    if path.exists():
        found = read_json(path)
        other = {k: (found.get(k), v) for k, v in wanted.items() if found.get(k) != v}
        # More pictures of the same kind may be added to a folder at any time.
        if set(other) - {"images", "domains", "classes"} or "kind" in other:
            differences = "; ".join(f"{k} is {a}, asked for {b}" for k, (a, b) in other.items())
            raise DatasetError(f"{folder} holds other data: {differences}. Choose another --out.")
    write_json(path, wanted)


@dataclass(frozen=True)
class CropTask:
    """One picture of one object."""

    path: Path
    domain: str
    label: str
    number: int
    request: CropRequest


@dataclass(frozen=True)
class DetectionTask:
    """One picture of a bench, and the files for its depth and its truth."""

    image: Path
    depth: Path
    truth: Path
    domain: str
    number: int
    request: DetectionRequest


def generate_crops(out: Path, request: CropRequest, workers: int) -> int:
    """Write the pictures that are missing in `out`; returns how many were."""
    record_request(out, request)
    clean(out)
    tasks = [
        CropTask(path, domain, label, number, request)
        for number in range(request.images)
        for domain in request.domains
        for label in request.classes
        if not (path := out / domain / label / f"{number:05d}.jpg").exists()
    ]
    produce(tasks, make_crop, workers)
    return len(tasks)


def make_crop(task: CropTask) -> None:
    """Render one image and write it."""
    request = task.request
    settings = {"size": request.size, "samples": request.samples, "seed": request.seed}
    frame = crop(task.domain, task.label, task.number, **settings)
    write_jpeg(task.path, frame.rgb)


def crop(domain: str, label: str, number: int, *, size: int, samples: int, seed: int) -> Frame:
    """A square picture of one object that fills it; the same number shows the same instance."""
    conditions = DOMAINS[domain]
    instance = int(stream(seed, label, number).integers(2**31))
    rng = stream(seed, label, number, domain)
    thing = PlacedObject(label, instance, yaw_degrees=float(rng.uniform(0, 360)))
    camera = cut_out(camera_model(conditions.camera))
    bench = bench_in(conditions, [thing], rng)
    pose = close_up(rng, thing, camera)
    noise = int(rng.integers(2**31))
    return render_bench(
        bench, camera, pose=pose, width=size, height=size, samples=samples, seed=noise
    )


def cut_out(camera: CameraModel) -> CameraModel:
    """The camera model of a part of its image: blur and vignetting scale with the crop."""
    return replace(camera, blur=camera.blur * CROP_OF, vignetting=camera.vignetting / CROP_OF)


def generate_detection(out: Path, request: DetectionRequest, workers: int) -> int:
    """Write the pictures that are missing, then `<domain>/annotations.json`; returns how many."""
    record_request(out, request)
    clean(out)
    wanted = [
        DetectionTask(
            out / domain / "images" / f"{number:06d}.jpg",
            out / domain / "depth" / f"{number:06d}.png",
            out / domain / "truth" / f"{number:06d}.json",
            domain,
            number,
            request,
        )
        for number in range(request.images)
        for domain in request.domains
    ]
    missing = [task for task in wanted if not task.image.exists()]
    produce(missing, make_detection, workers)
    for domain in request.domains:
        truths = [task.truth for task in wanted if task.domain == domain]
        document = coco_dataset(CLASSES, [read_json(path) for path in truths])
        # Compact, not `write_json`: masks hold a number per run, which would be a line each.
        write_bytes(out / domain / "annotations.json", json.dumps(document).encode())
    return len(missing)


def make_detection(task: DetectionTask) -> None:
    """Render one picture; depth and truth are written first, so a picture never lacks them."""
    frame = detection(task.domain, task.number, task.request)
    height, width = frame.depth.shape
    truth = {"file_name": f"images/{task.image.name}", "width": width, "height": height}
    content = json.dumps({**truth, "annotations": coco_annotations(frame)})
    write_bytes(task.truth, content.encode())
    write_depth(task.depth, millimetres(frame.depth))
    write_jpeg(task.image, frame.rgb)


def detection(domain: str, number: int, request: DetectionRequest) -> Frame:
    """A bench with `fewest_objects` to `most_objects` objects, seen as a whole."""
    conditions = DOMAINS[domain]
    rng = stream(request.seed, "detection", number, domain)
    count = int(rng.integers(request.fewest_objects, request.most_objects + 1))
    labels = [str(label) for label in rng.choice(request.classes, count)]
    seeds = [int(seed) for seed in rng.integers(2**31, size=count)]
    bench = bench_in(conditions, arrange(rng, labels, seeds), rng)
    pose, noise = overview(rng), int(rng.integers(2**31))
    settings = {"width": request.width, "height": request.height, "samples": request.samples}
    return render_bench(bench, conditions.camera, pose=pose, seed=noise, **settings)
