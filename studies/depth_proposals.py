# SPDX-License-Identifier: Apache-2.0
"""Objects that the depth proposer finds: real table tops, the simulated bench, clutter, noise.

    python -m studies.depth_proposals scenes --data DIR
    python -m studies.depth_proposals noise
    python -m studies.depth_proposals figure --data DIR --tum DIR --out FILE

DIR holds the Object Segmentation Database as `rgb/*.jpg depth/*.png label/*.png`. Settings were
chosen on its scenes of even number, the others are reported. Recall and precision are at IoU 0.5
with at most 15 regions, through `Detector.regions` as in the node; milliseconds are the median
time of the proposer on one core.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import cv2
import numpy as np

from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector, DetectorConfig
from newfound_core.detection.fused_proposer import FusedProposer
from newfound_core.detection.proposals import Proposals, Proposer
from newfound_core.detection.region_proposer import load_region_proposer
from newfound_training.detector.measures import match_boxes
from studies.bench_robot import clip_shots
from studies.clutter import clutter
from tests.bench.detector_cost import CLIP

REGIONS = 15
SIZES = ((640, 480), (640, 480), (640, 480), (320, 240), (1280, 720))  # of cluttered scenes
Scene = tuple[np.ndarray, np.ndarray, np.ndarray]  # colour, depth in metres, boxes
Degrade = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def osd_scenes(root: Path, odd: bool) -> Iterator[Scene]:
    """Colour, depth in metres and boxes of the objects, for half of the scenes."""
    files = sorted((root / "rgb").glob("*.jpg"), key=lambda file: int(file.stem[5:]))
    for file in files:
        if int(file.stem[5:]) % 2 != odd:
            continue
        rgb = cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB)
        depth = cv2.imread(str(root / "depth" / f"{file.stem}.png"), -1).astype(np.float32) / 1e3
        label = cv2.imread(str(root / "label" / f"{file.stem}.png"), -1) // 10
        boxes = []
        for number in np.unique(label[label >= 2]):
            rows, columns = np.nonzero(label == number)
            boxes.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        yield rgb, depth, np.array(boxes, np.float32)


def simulated(every: int = 3) -> Iterator[Scene]:
    """The same for some frames of the shipped clip."""
    for shot in clip_shots(CLIP)[::every]:
        yield shot.rgb, shot.depth.astype(np.float32) * 1e-3, shot.boxes


def cluttered(count: int = 40) -> Iterator[Scene]:
    """The same for ray-cast scenes, three sizes of image; settings were chosen on other seeds."""
    for seed in range(count):
        scene = clutter(seed, *SIZES[seed % len(SIZES)])
        yield scene.rgb, scene.depth, scene.boxes


def holes(depth: np.ndarray, rng: np.random.Generator, share: float = 0.3) -> np.ndarray:
    """Single pixels without depth."""
    return np.where(rng.random(depth.shape) < share, 0, depth)


def patches(depth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Patches of about 10 pixels without depth, a tenth of the image."""
    smooth = cv2.GaussianBlur(rng.normal(size=depth.shape).astype(np.float32), (0, 0), 5)
    return np.where(smooth > 1.3 * smooth.std(), 0, depth)


def flying(depth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pixels within two of a step anywhere between near and far, and a few strays."""
    kernel = np.ones((5, 5), np.uint8)
    far = cv2.dilate(depth, kernel)
    near = cv2.erode(np.where(depth > 0, depth, 99).astype(np.float32), kernel)
    step = (far - near > 0.02 * near) & (depth > 0) & (rng.random(depth.shape) < 0.8)
    between = near + rng.random(depth.shape) * (far - near)
    stray = rng.random(depth.shape) < 0.01
    moved = np.where(step, between, depth)
    return np.where(stray, moved * rng.uniform(0.5, 1.5, depth.shape), moved)


def noise(depth: np.ndarray, rng: np.random.Generator, deviation: float = 0.02) -> np.ndarray:
    """Noise of a standard deviation that grows with the square of the distance."""
    noisy = depth + deviation * depth**2 * rng.normal(size=depth.shape)
    return np.where(depth > 0, np.maximum(noisy, 0), 0)


NOISE: dict[str, Degrade] = {
    "none": lambda depth, rng: depth,
    "holes, 30 % of the pixels": holes,
    "holes, patches": patches,
    "flying pixels": flying,
    "noise, 1 cm z^2": lambda depth, rng: noise(depth, rng, 0.01),
    "noise, 2 cm z^2": noise,
    "flying pixels, 1 cm z^2, 20 % holes": lambda depth, rng: holes(
        noise(flying(depth, rng), rng, 0.01), rng, 0.2
    ),
}


def regions(detector: Detector, rgb: np.ndarray, depth: np.ndarray) -> tuple[Proposals, float]:
    """What is found, and the seconds of the processor it took."""
    started = time.process_time()
    found = detector.regions(rgb, depth)
    return found, time.process_time() - started


def measure(detector: Detector, shown: Iterable[Scene]) -> tuple[float, float, float, int]:
    """Recall, precision, milliseconds and number of objects."""
    matched = objects = proposed = 0
    spent = []
    for rgb, depth, boxes in shown:
        found, seconds = regions(detector, rgb, depth)
        spent.append(seconds)
        matched += int((match_boxes(boxes, found.boxes) >= 0).sum())
        objects, proposed = objects + len(boxes), proposed + len(found)
    return matched / objects, matched / max(proposed, 1), 1e3 * statistics.median(spent), objects


def degraded(degrade: Degrade, every: int = 9) -> Iterator[Scene]:
    """Frames of the clip with worse depth."""
    for index, (rgb, depth, boxes) in enumerate(simulated(every)):
        worse = degrade(depth, np.random.default_rng(index))
        yield rgb, worse.astype(np.float32), boxes


def print_table(title: str, rows: dict[str, Iterable[Scene]], network: str = "") -> None:
    """Measure and print one row after another; with a region network, those of `fused`."""
    proposer: Proposer = DepthSegments()
    if network:
        proposer = FusedProposer(DepthSegments(), load_region_proposer(network))
    detector = Detector(proposer, DetectorConfig(max_regions=REGIONS))
    print(f"| {title} | objects | recall | precision | ms |\n|---|---|---|---|---|")
    for name, shown in rows.items():
        recall, precision, spent, objects = measure(detector, shown)
        print(f"| {name} | {objects} | {recall:.1%} | {precision:.1%} | {spent:.0f} |", flush=True)


def draw(data: Path, tum: Path, out: Path) -> None:
    """Draw proposals in six scenes of the reported half of OSD, and in six of TUM's desk."""
    shown = [(rgb, depth) for rgb, depth, _ in osd_scenes(data, odd=True)]
    pictures = [shown[i] for i in np.linspace(0, len(shown) - 1, 6).astype(int)]
    colours, depths = (sorted((tum / name).iterdir()) for name in ("rgb", "depth"))
    stamps = np.array([float(file.stem) for file in depths])
    for index in np.linspace(0, len(colours) - 1, 6).astype(int):
        nearest = int(np.abs(stamps - float(colours[index].stem)).argmin())
        rgb = cv2.cvtColor(cv2.imread(str(colours[index])), cv2.COLOR_BGR2RGB)
        pictures.append((rgb, cv2.imread(str(depths[nearest]), -1).astype(np.float32) / 5000))
    detector = Detector(DepthSegments(), DetectorConfig(max_regions=REGIONS))
    panels = []
    for rgb, depth in pictures:
        picture = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
        found = detector.regions(rgb, depth)
        for box, sure in zip(found.boxes.astype(int).tolist(), found.objectness, strict=True):
            cv2.rectangle(picture, box[:2], box[2:], (30, 60, 240), 3)
            where = (box[0] + 4, box[1] + 20)
            cv2.putText(picture, f"{sure:.2f}", where, 0, 0.6, (255, 255, 255), 2)
        panels.append(cv2.resize(picture, (400, 300), interpolation=cv2.INTER_AREA))
    rows = [np.hstack(panels[i : i + 3]) for i in range(0, len(panels), 3)]
    cv2.imwrite(str(out), np.vstack(rows), [cv2.IMWRITE_JPEG_QUALITY, 85])


def main() -> None:
    """Print the table, or draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("scenes", "noise", "figure"))
    parser.add_argument("--data", type=Path, help="Object Segmentation Database")
    parser.add_argument("--tum", type=Path, help="frames of TUM RGB-D")
    parser.add_argument("--regions", default="", help="region network: measure the proposer fused")
    parser.add_argument("--out", type=Path, default=Path("depth_proposals.jpg"))
    options = parser.parse_args()
    if options.command != "noise" and options.data is None:
        parser.error("--data is needed")
    cv2.setNumThreads(1)
    if options.command == "figure":
        draw(options.data, options.tum, options.out)
    elif options.command == "noise":
        print_table("depth of the simulated bench", {n: degraded(d) for n, d in NOISE.items()})
    else:
        print_table(
            "scenes",
            {
                "`osd`, half for choices": osd_scenes(options.data, odd=False),
                "`osd`, reported half": osd_scenes(options.data, odd=True),
                "simulated bench": simulated(),
                "ray-cast clutter": cluttered(),
            },
            options.regions,
        )


if __name__ == "__main__":
    main()
