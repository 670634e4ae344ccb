# SPDX-License-Identifier: Apache-2.0
"""Masks of confirmed regions of depth."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.proposals import Proposals, SegmentedDepth, Segments
from newfound_core.segmentation.region_masks import region_mask

SIZE = (200, 100)  # of the image; depth is half of it


def proposals():
    """Two regions, at the left and at the right; the better one is the second."""
    labels = np.zeros((50, 100), np.int32)
    labels[10:30, 10:30], labels[20:40, 60:90] = 7, 3
    boxes = np.array([[20, 20, 60, 60], [120, 40, 180, 80]], np.float32)
    segments = Segments(labels, 0, 0, boxes, np.array([7, 3]))
    scene = SegmentedDepth([], np.ones((50, 100), np.float32), segments)
    found = Proposals(boxes, np.array([0.5, 0.9], np.float32), ("depth", "depth"), scene)
    return found.take(np.array([1, 0]))


def test_a_confirmed_region_is_the_class_and_others_may_be():
    mask = region_mask(proposals(), np.array([[22, 18, 62, 58]]), SIZE)
    assert mask.shape == (100, 200)
    inside, outside = np.s_[24:56, 24:56], np.s_[:, 70:110]
    assert (mask[inside] == 1).all()
    assert (mask[outside] == 0).all()
    assert (mask[40:80, 120:180] == 255).all()  # nobody said what this is
    assert mask[20, 40] == 255  # the border
    assert (mask == 1).sum() <= 40 * 40


def test_a_confirmed_box_without_a_region_is_not_known():
    mask = region_mask(proposals(), np.array([[80, 70, 110, 95], [-9, -9, 5, 5]]), SIZE)
    assert not (mask == 1).any()
    assert (mask[70:96, 80:111] == 255).all()
    assert (mask[:6, :6] == 255).all()
    assert mask[50, 100] == 0


def test_without_depth_every_confirmed_box_is_not_known_and_the_rest_is_not_the_class():
    mask = region_mask(Proposals.none(), np.array([[80, 70, 110, 95]]), SIZE)
    assert set(np.unique(mask)) == {0, 255}
    assert not region_mask(Proposals.none(), np.zeros((0, 4)), SIZE).any()


@pytest.mark.slow
@pytest.mark.skipif("NEWFOUND_DATA" not in os.environ, reason="NEWFOUND_DATA is not set: osd")
def test_masks_of_real_things_are_theirs():
    root = Path(os.environ["NEWFOUND_DATA"]) / "osd"
    right = wrong = missed = whole = 0
    for file in sorted((root / "rgb").glob("*.jpg"))[::5]:
        rgb = cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB)
        depth = cv2.imread(str(root / "depth" / f"{file.stem}.png"), -1).astype(np.float32) / 1e3
        label = cv2.imread(str(root / "label" / f"{file.stem}.png"), -1) // 10
        found = DepthSegments().propose(rgb, depth)
        for number in np.unique(label[label >= 2]):
            true = label == number
            rows, columns = np.nonzero(true)
            box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            mask = region_mask(found, np.array([box]), rgb.shape[1::-1])
            right, wrong = right + (true & (mask == 1)).sum(), wrong + (~true & (mask == 1)).sum()
            missed, whole = missed + (true & (mask == 0)).sum(), whole + true.sum()
    assert right / (right + wrong) > 0.95
    assert right / whole > 0.75  # most of the others are not known: borders
    assert missed / whole < 0.02
