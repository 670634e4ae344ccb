# SPDX-License-Identifier: Apache-2.0
import torch
from newfound_core.onda import OndaConfig
from newfound_core.onda.drift import Drift
from newfound_core.onda.guards import RECENT_FRAMES, Anchor, RedundancyFilter


def test_sensor_noise_is_redundant_and_a_new_view_is_not():
    redundancy = RedundancyFilter()
    view = torch.randn(1, 3, 1, 1).expand(1, 3, 64, 64)
    assert not redundancy.is_redundant(view, 0.02)
    assert redundancy.is_redundant(view + 0.05 * torch.randn(1, 3, 64, 64), 0.02)
    assert not redundancy.is_redundant(view + 1, 0.02)


def test_slow_movement_counts_in_time():
    redundancy = RedundancyFilter()
    frame = torch.zeros(1, 3, 16, 16)
    redundant = [redundancy.is_redundant(frame + 0.009 * step, 0.02) for step in range(7)]
    assert redundant == [False, True, True, False, True, True, False]


def test_a_new_camera_format_is_never_redundant():
    redundancy = RedundancyFilter()
    assert not redundancy.is_redundant(torch.zeros(1, 3, 16, 16), 0.02)
    assert not redundancy.is_redundant(torch.zeros(1, 1, 16, 16), 0.02)


def test_the_anchor_complains_of_drift_and_of_entropy_outside_its_band():
    config = OndaConfig(anchor=True, anchor_max_drift=2.0, anchor_entropy_band=(0.1, 0.9))
    anchor = Anchor()
    assert anchor.complaint(Drift({"a": 1.0}), config) is None
    assert "drift 3.00" in anchor.complaint(Drift({"a": 4.0, "b": 2.0}), config)
    for _ in range(RECENT_FRAMES):
        anchor.note(0.99)
    assert "entropy 0.990" in anchor.complaint(Drift({"a": 1.0}), config)
    anchor.clear()
    assert anchor.complaint(Drift({"a": 1.0}), config) is None
