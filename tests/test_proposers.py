# SPDX-License-Identifier: Apache-2.0
"""Proposers on the shipped clip, whose truth is known."""

from collections.abc import Iterator

import cv2
import numpy as np

from newfound_core.detection.boxes import iou
from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector
from newfound_core.detection.region_proposer import load_region_proposer
from newfound_sim.clip import load_clip
from tests import ROOT

CLIP = ROOT / "src" / "newfound_sim" / "clips" / "workbench_demo"
Picture = tuple[np.ndarray, np.ndarray, np.ndarray]


def pictures(every: int = 1) -> Iterator[Picture]:
    """Colour, depth in metres, and the boxes of what is at least half visible."""
    clip = load_clip(CLIP)
    shown = sorted({(frame.image, frame.depth, frame.truth) for frame in clip.frames})
    for rgb, depth, truth in shown[::every]:
        colour = cv2.cvtColor(cv2.imread(str(CLIP / rgb)), cv2.COLOR_BGR2RGB)
        metres = cv2.imread(str(CLIP / depth), cv2.IMREAD_UNCHANGED).astype(np.float32) * 1e-3
        objects = [o.box for o in clip.truths[truth].objects if o.visible > 0.5]
        boxes = np.array([[x, y, x + w, y + h] for x, y, w, h in objects], np.float32)
        yield colour, metres, boxes


def test_depth_finds_the_objects_on_the_workbench_and_little_else():
    covered, proposed, proposer = [], 0, DepthSegments()
    for colour, metres, boxes in pictures():
        found = proposer.propose(colour, metres)
        covered += (iou(boxes, found.boxes).max(1, initial=0) >= 0.5).tolist()
        proposed += len(found)
    assert len(covered) > 200
    assert np.mean(covered) >= 0.95
    assert proposed <= 1.2 * len(covered)


def test_the_shipped_region_network_finds_most_of_them_without_depth():
    detector = Detector(load_region_proposer(str(ROOT / "models" / "regions")))
    covered = []
    for colour, _, boxes in pictures(every=5):
        found = detector.regions(colour, None).boxes
        covered += (iou(boxes, found).max(1, initial=0) >= 0.5).tolist()
    assert len(covered) > 40
    assert np.mean(covered) >= 0.6
