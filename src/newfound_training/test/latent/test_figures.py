# SPDX-License-Identifier: Apache-2.0
import numpy as np

from newfound_training.latent.figures import TYPICAL, draw_domains, map_of, typical_frames


def test_typical_frames_are_of_the_domain_and_near_its_middle():
    positions = np.concatenate([np.linspace(-1, 1, 40), np.linspace(9, 11, 40)])[:, None]
    weights = np.repeat(np.eye(2), 40, 0)
    chosen = typical_frames(weights, positions, 1)
    assert len(chosen) == TYPICAL
    assert chosen.min() >= 40
    assert abs(positions[chosen] - 10).max() <= 0.55


def test_a_dead_domain_is_drawn_without_frames(tmp_path):
    weights = np.tile([1.0, 0.0], (9, 1))
    frames = np.zeros((9, 8, 8, 3), np.uint8)
    statistics = np.random.default_rng(0).normal(size=(9, 4))
    draw_domains(frames, weights, statistics, ["one", "none"], tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 5000


def test_the_map_is_flat_also_for_a_single_statistic():
    assert map_of(np.arange(5.0)[:, None]).shape == (5, 2)
