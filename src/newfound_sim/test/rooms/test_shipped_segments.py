# SPDX-License-Identifier: Apache-2.0
"""The shipped model finds its way in a building that it has not seen."""

from pathlib import Path

import pytest

from newfound_core.segmentation.label_image import mapping
from newfound_core.segmentation.metrics import Confusion
from newfound_core.segmentation.segmenter import Segmenter
from newfound_sim.rooms.images import room_image
from newfound_sim.rooms.masks import CLASSES, room_mask

MODEL = Path(__file__).parents[4] / "models" / "rooms_segments"


@pytest.mark.skipif(not MODEL.is_dir(), reason="the repository's models are not beside the tests")
def test_the_shipped_model_finds_floor_and_wall_in_another_building():
    segmenter = Segmenter.load(MODEL)
    confusion, table = Confusion(len(segmenter.labels)), mapping(CLASSES, segmenter.labels)
    for category in ("office", "bedroom"):
        frame = room_image("cottage", "cloudy", category, 200_000, 128, samples=2)
        truth = room_mask("cottage", category, 200_000, 128)
        confusion.add(table[truth], segmenter.segment(frame.rgb).mask)
    found = dict(zip(segmenter.labels, confusion.iou(), strict=True))
    assert found["floor"] > 0.5
    assert found["wall"] > 0.3
