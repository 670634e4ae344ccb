# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.open_world.heads import build_head
from newfound_core.open_world.view_coverage import distinct_views, recognised_when_left_out


def test_a_view_counts_only_if_it_differs_from_all_that_count_before_it():
    angles = np.radians([0.0, 3.0, 30.0, 27.0, 60.0, 1.0])
    views = torch.tensor(np.stack([np.cos(angles), np.sin(angles)], 1))
    same = float(np.cos(np.radians(10.0)))
    differs, novelty = distinct_views(views, same)
    assert differs == [True, False, True, False, True, False]
    nearest = [None, 3.0, 30.0, 3.0, 30.0, 1.0]  # degrees to the nearest one that counts
    expected = [1.0, *(1 - np.cos(np.radians(angle)) for angle in nearest[1:])]
    assert novelty == pytest.approx(expected, abs=1e-12)


def test_no_view_and_one_view_say_nothing():
    assert distinct_views(torch.zeros(0, 4)) == ([], [])
    assert recognised_when_left_out(build_head("bdoc", 4), torch.ones(1, 4)) == 0


def known_head():
    """Two classes, far apart, each with a threshold of 1 and a variance of 1."""
    head = build_head("bdoc", 3)
    head.extend(["a", "b"])
    views = torch.tensor([[10.0, 0, 0], [0, 10.0, 0]])
    head.refit([(views, torch.tensor([0, 1]))], features_changed=False)
    head.rejection_threshold = torch.ones(2)
    return head


def test_views_near_each_other_are_recognised_and_a_stray_one_is_not():
    generator = torch.Generator().manual_seed(0)
    near = torch.tensor([[0.0, 0, 10]]) + 0.01 * torch.randn(6, 3, generator=generator)
    head = known_head()
    assert recognised_when_left_out(head, near) == 6
    stray = torch.cat([near, torch.tensor([[9.0, 0, 1]])])
    assert recognised_when_left_out(head, stray) == 6
    assert head.labels == ["a", "b"]  # nothing is learned


def test_of_very_many_views_the_share_of_the_first_counts_for_all():
    assert recognised_when_left_out(known_head(), torch.tensor([[0.0, 0, 10]]).repeat(50, 1)) == 50
