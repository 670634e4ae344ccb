# SPDX-License-Identifier: Apache-2.0
"""The depth proposer on the shipped clip, whose truth is known."""

import cv2
import numpy as np

from newfound_core.detection.boxes import iou
from newfound_core.detection.depth_relief import DepthRelief
from newfound_sim.clip import load_clip
from tests.harness import ROOT

CLIP = ROOT / "src" / "newfound_sim" / "clips" / "workbench_demo"


def test_objects_on_the_workbench_are_found_and_little_else():
    clip, proposer = load_clip(CLIP), DepthRelief()
    rgb = np.zeros((clip.height, clip.width, 3), np.uint8)
    covered, proposed = [], 0
    for depth, truth in sorted({(frame.depth, frame.truth) for frame in clip.frames}):
        metres = cv2.imread(str(CLIP / depth), cv2.IMREAD_UNCHANGED).astype(np.float32) * 1e-3
        objects = [o.box for o in clip.truths[truth].objects if o.visible > 0.5]
        boxes = np.array([[x, y, x + w, y + h] for x, y, w, h in objects], np.float32)
        found = proposer.propose(rgb, metres)
        covered += (iou(boxes, found.boxes).max(1, initial=0) >= 0.5).tolist()
        proposed += len(found)
    assert len(covered) > 200
    assert np.mean(covered) >= 0.95
    assert proposed <= 1.2 * len(covered)
