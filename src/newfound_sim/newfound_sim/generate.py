# SPDX-License-Identifier: Apache-2.0
"""Workbench data on disk: trees of labelled crops, and detection sets. Both can be resumed."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from newfound_sim import coco
from newfound_sim.arranging import arrange, bench_in, close_up, overview
from newfound_sim.camera import CameraModel
from newfound_sim.dataset_request import CropRequest, DetectionRequest, keep, stream
from newfound_sim.exposing import millimetres
from newfound_sim.objects import CLASSES
from newfound_sim.production import produce, sweep, write_depth, write_jpeg, write_whole
from newfound_sim.rendering import Frame
from newfound_sim.workbench import DOMAINS, PlacedObject, camera_model, render_bench

# A crop is cut from a picture a few times its size, so the lens blurs it as much more.
CROP_OF = 2.5


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
    keep(out, request)
    sweep(out)
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
    """Render one picture and write it."""
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
    """The camera as it looks in a part of its picture."""
    return replace(camera, blur=camera.blur * CROP_OF, vignetting=camera.vignetting / CROP_OF)


def generate_detection(out: Path, request: DetectionRequest, workers: int) -> int:
    """Write the pictures that are missing, then `<domain>/annotations.json`; returns how many."""
    keep(out, request)
    sweep(out)
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
        document = coco.dataset(CLASSES, [json.loads(path.read_text()) for path in truths])
        write_whole(out / domain / "annotations.json", json.dumps(document).encode())
    return len(missing)


def make_detection(task: DetectionTask) -> None:
    """Render one picture; depth and truth are written first, so a picture never lacks them."""
    frame = detection(task.domain, task.number, task.request)
    height, width = frame.depth.shape
    truth = {"file_name": f"images/{task.image.name}", "width": width, "height": height}
    content = json.dumps({**truth, "annotations": coco.annotations(frame)})
    write_whole(task.truth, content.encode())
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
