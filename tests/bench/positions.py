# SPDX-License-Identifier: Apache-2.0
"""What positions in space cost a frame: boxes of the depth proposer with and without them.

Ray-cast tables at 640 x 480 with three things, 1 m away, and the noise of a depth camera.
`positions` is what they add. Target: 3 ms per frame.
"""

import statistics
import time

import numpy as np

from newfound_core.detection.camera_rays import Calibration
from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector
from newfound_core.detection.positions import ObjectLocator
from newfound_core.detection.proposals import CameraView
from studies.positions import FOCAL, SIZE, ray_cast

NOISE = "2 mm z^2, 10 % holes"


def run(quick: bool) -> list[dict]:
    scenes = list(ray_cast(1.0, NOISE, range(2000, 2003 if quick else 2010)))
    detector = Detector(DepthSegments(camera=CameraView(FOCAL / SIZE[0], FOCAL / SIZE[0])))
    locator = ObjectLocator(Calibration(FOCAL / SIZE[0], FOCAL / SIZE[1], 0.5, 0.5))
    rgb = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
    seconds: dict[str, list[float]] = {"boxes": [], "positions": []}
    for turn in range(3 if quick else 21):
        for scene in scenes:
            started = time.perf_counter()
            found = detector.regions(rgb, scene.depth)
            boxed = time.perf_counter()
            locator.locate(scene.depth, found.boxes, scene.depth.shape, found.scene)
            ended = time.perf_counter()
            if turn:  # the first one computes the rays
                seconds["boxes"].append(boxed - started)
                seconds["positions"].append(ended - boxed)
    base = statistics.median(seconds["boxes"])
    return [
        {
            "": name,
            "ms per frame": 1e3 * statistics.median(times),
            "ratio": statistics.median(times) / base,
            "target": "<= 3 ms" if name == "positions" else "",
        }
        for name, times in seconds.items()
    ]
