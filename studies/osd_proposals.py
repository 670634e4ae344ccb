# SPDX-License-Identifier: Apache-2.0
"""Objects of real table-top scenes that the depth proposers find.

    python -m studies.osd_proposals --data DIR

DIR holds the Object Segmentation Database as `rgb/*.jpg depth/*.png label/*.png`. Settings were
chosen on the scenes of even number, the others are reported. The shipped clip of the simulated
bench comes along. Prints recall and precision at IoU 0.5 with at most 15 regions, and the median
time of a frame on one core.
"""

import argparse
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import cv2
import numpy as np

from newfound_core.detection.depth_relief import DepthRelief
from newfound_core.detection.proposals import Proposer
from newfound_core.detection.surface_segments import SurfaceSegments
from newfound_training.detector.measures import match_boxes
from studies.bench_robot import clip_shots
from tests.bench.detector_cost import CLIP

REGIONS = 15
PROPOSERS: dict[str, Proposer] = {"depth": DepthRelief(), "surfaces": SurfaceSegments()}


Scene = tuple[np.ndarray, np.ndarray, np.ndarray]


def scenes(root: Path, odd: bool) -> Iterator[Scene]:
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


def simulated() -> Iterator[Scene]:
    """The same for every third frame of the shipped clip."""
    for shot in clip_shots(CLIP)[::3]:
        yield shot.rgb, shot.depth.astype(np.float32) * 1e-3, shot.boxes


def measure(proposer: Proposer, shown: Iterable[Scene]) -> tuple[float, float, float, int]:
    """Recall, precision, milliseconds and number of objects."""
    matched = objects = regions = 0
    spent = []
    for rgb, depth, boxes in shown:
        started = time.perf_counter()
        found = proposer.propose(rgb, depth).boxes[:REGIONS]
        spent.append(time.perf_counter() - started)
        matched += int((match_boxes(boxes, found) >= 0).sum())
        objects, regions = objects + len(boxes), regions + len(found)
    return matched / objects, matched / max(regions, 1), 1e3 * statistics.median(spent), objects


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    root = parser.parse_args().data
    cv2.setNumThreads(1)
    print("| proposer | scenes | objects | recall | precision | ms |\n|---|---|---|---|---|---|")
    for name, proposer in PROPOSERS.items():
        for scene, shown in (
            ("choice", scenes(root, odd=False)),
            ("reported", scenes(root, odd=True)),
            ("simulated", simulated()),
        ):
            recall, precision, spent, objects = measure(proposer, shown)
            values = f"{recall:.1%} | {precision:.1%} | {spent:.0f}"
            print(f"| {name} | {scene} | {objects} | {values} |")


if __name__ == "__main__":
    main()
