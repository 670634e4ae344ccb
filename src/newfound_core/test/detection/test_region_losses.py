# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
from torchvision.ops import box_iou

from newfound_core.detection.region_losses import (
    assign,
    best_overlap,
    inside_any,
    jittered,
    quality_loss,
)


def test_a_place_predicts_the_smallest_object_in_whose_middle_it_lies():
    # Places at strides 8 and 16; a large object around a small one, and one too large for 8.
    places = torch.tensor([[20.0, 20], [20, 28], [4, 4], [24, 24], [100, 100]])
    strides = torch.tensor([8.0, 8, 8, 16, 16])
    objects = torch.tensor([[12.0, 12, 28, 28], [0, 0, 40, 40], [0, 0, 200, 200]])
    found = assign(places, strides, objects)
    # (20, 28) lies on the border of the first, in the middle of the second; (4, 4) in no middle;
    # at stride 16 objects reach at least 48 pixels from the place: only the third does.
    assert found.tolist() == [0, 1, -1, -1, 2]
    assert assign(places, strides, objects[:0]).tolist() == [-1] * 5


def test_places_are_inside_of_objects_or_not():
    objects = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30]])
    places = torch.tensor([[5.0, 5], [15, 15], [25, 29], [5, 25]])
    assert inside_any(places, objects).tolist() == [True, False, True, False]
    assert not inside_any(places, objects[:0]).any()


def test_the_quality_loss_is_that_of_the_paper():
    logits, target = torch.randn(50, dtype=torch.float64), torch.rand(50, dtype=torch.float64)
    q, y = 1 / (1 + np.exp(-logits.numpy())), target.numpy()
    expected = (q - y) ** 2 * -(y * np.log(q) + (1 - y) * np.log(1 - q))
    np.testing.assert_allclose(quality_loss(logits, target).numpy(), expected, rtol=1e-9)
    sure = torch.logit(target)
    assert quality_loss(sure, target).max() < 1e-12  # nothing left to learn


def test_jittered_boxes_overlap_the_object_they_came_from():
    torch.manual_seed(0)
    boxes = torch.tensor([[10.0, 10, 50, 30], [0, 0, 8, 8]])
    variants = jittered(boxes, 50)
    assert variants.shape == (100, 4)
    assert (box_iou(variants, boxes).amax(1) > 0.2).all()
    assert jittered(boxes[:0], 4).shape == (0, 4)


def test_without_objects_nothing_overlaps():
    assert best_overlap(torch.rand(3, 4), torch.zeros(0, 4)).tolist() == [0, 0, 0]
