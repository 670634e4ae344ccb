# SPDX-License-Identifier: Apache-2.0
"""The camera's light changes half-way: the adaptive node recovers, the frozen one does not."""

import pytest

from tests import gratings
from tests.light_change import draw, lit, measure, watch
from tests.playing import make_clip


@pytest.mark.slow
def test_accuracy_recovers_with_adaptation_and_not_without(tmp_path):
    """The real nodes and the simulated camera in a process of their own, over DDS."""
    checkpoint = gratings.train(tmp_path / "model")
    full = gratings.pictures(tmp_path / "full", 150, seed=1, dim=False)
    dim = gratings.pictures(tmp_path / "dim", 200, seed=2, dim=True)
    clip = make_clip(tmp_path / "clip", [*lit(full, "full_lamp"), *lit(dim, "dim_lamp")])
    quick = {"frames_per_update": 5, "momentum": 0.2}
    moments = watch(clip, checkpoint, rate=10.0, **quick)
    assert len(moments) > 200
    result = measure(moments, "full_lamp", window=40)
    adapting, frozen = result["adapting"], result["frozen"]
    assert frozen["before"] > 0.9
    assert frozen["recovered"] < frozen["before"] - 0.25
    assert adapting["recovered"] > adapting["before"] - 0.1
    draw([moments], "full_lamp", 40, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
