# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest

from newfound_core.testing import tiny


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A tiny source model of the tree's classes."""
    return tiny(tmp_path_factory.mktemp("model") / "m", labels=("blue", "green", "red"))


@pytest.fixture
def write_video():
    """A video of `frames` frames of rising brightness."""

    def write(path, frames=12):
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (48, 40))
        generator = np.random.default_rng(0)
        for number in range(frames):
            noise = generator.integers(0, 60, (40, 48, 3)).astype(np.uint8)
            writer.write(noise + np.uint8(10 * number))
        writer.release()
        return path

    return write
