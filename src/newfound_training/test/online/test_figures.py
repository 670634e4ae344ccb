# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from PIL import Image

from newfound_training.online.figures import draw_changes, draw_streams, draw_sweep
from newfound_training.online.options import OnlineOptions
from newfound_training.online.streams import sweep_streams


def test_figures_are_small_images(target, tmp_path):
    options = OnlineOptions(
        orders=1, frames_per_update=5, sweep_momentum=(0.1,), sweep_frames=(5,), sweep_orders=1
    )
    draw_streams([target, target], options, tmp_path / "figures" / "streams.png")
    changes = replace(options, conditions=("light",))
    draw_changes([target, target], changes, tmp_path / "figures" / "changes.png")
    draw_sweep(target, sweep_streams(target, options), tmp_path / "figures" / "sweep.png")
    for path in (tmp_path / "figures").iterdir():
        with Image.open(path) as image:
            assert image.width > 300
        assert path.stat().st_size < 200_000
