# SPDX-License-Identifier: Apache-2.0
"""Small scenarios and clips that several tests use."""

import cv2
import numpy as np
import pytest

from newfound_runtime.testing import ros as ros  # a fixture
from newfound_sim.clip import Clip, ClipFrame, SeenObject, Truth

TINY = """\
kind: workbench
duration: 2
rate: 5
size: [48, 36]
seed: 3
samples: 1
camera: webcam
background: brown
light: artificial
objects:
  - {class: mug, at: [0, 0.05], from: 0.5}
  - {class: apple, at: [0.2, 0.0], until: 1}
light_changes:
  - {from: 1, until: 1.6, to: directed}
camera_moves:
  - {from: 1.6, until: 2, eye: [0.2, -0.45, 0.5], target: [0, 0, 0]}
"""


@pytest.fixture
def tiny_scenario(tmp_path):
    """A scenario file in which everything happens within ten small frames."""
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="session")
def rendered_clip(tmp_path_factory):
    """The same scenario as a file and, really rendered, as a clip; not to be changed."""
    from newfound_sim.clip_rendering import ClipOptions, render_clip
    from newfound_sim.scenario_file import load_scenario

    folder = tmp_path_factory.mktemp("rendered_clip")
    (folder / "tiny.yaml").write_text(TINY)
    render_clip(load_scenario(folder / "tiny.yaml"), folder / "clip", ClipOptions(), workers=1)
    return folder / "tiny.yaml", folder / "clip"


@pytest.fixture
def make_clip(tmp_path):
    """Write a clip without rendering: frame n has brightness 20 n; two frames share a depth."""

    def make(frames: int = 6, width: int = 64, height: int = 48, rate: float = 30.0, depth=True):
        folder = tmp_path / "clip"
        (folder / "images").mkdir(parents=True)
        (folder / "depth").mkdir()
        listed, truths = [], []
        for number in range(frames):
            picture = np.full((height, width, 3), 20 * number % 256, np.uint8)
            cv2.imwrite(str(folder / f"images/{number}.jpg"), picture)
            metres = np.full((height, width), 500 + number // 2, np.uint16)
            cv2.imwrite(str(folder / f"depth/{number // 2}.png"), metres)
            seen = SeenObject(1, "mug", (number, 2, 10, 12), 0.75)
            truths.append(Truth((seen,), "", "cloudy_webcam_white", "cloudy", "directed", 0.25))
            name = f"depth/{number // 2}.png" if depth else None
            listed.append(ClipFrame(number / rate, f"images/{number}.jpg", number, name))
        k = (50.0, 0.0, (width - 1) / 2, 0.0, 50.0, (height - 1) / 2, 0.0, 0.0, 1.0)
        Clip(rate, width, height, k, tuple(truths), tuple(listed)).save(folder, made_from={})
        return folder

    return make
