# SPDX-License-Identifier: Apache-2.0
"""A tiny network that knows red, green and blue, and images of yellow things with masks."""

import cv2
import numpy as np
import pytest
from sensor_msgs.msg import CompressedImage

from newfound_core.testing import COLOURS, coloured_scene, tiny_segments

YELLOW = {**COLOURS, "yellow": (230, 220, 40)}


@pytest.fixture(scope="session")
def shipped(tmp_path_factory):
    """A checkpoint that was trained for a moment, with four reference frames."""
    return tiny_segments(tmp_path_factory.mktemp("segments") / "tiny", skilled=True)


def png(values):
    """An image or a mask as a message."""
    pixels = values[..., ::-1] if values.ndim == 3 else values
    return CompressedImage(format="png", data=cv2.imencode(".png", pixels)[1].tobytes())


def yellow_things(count, first=100):
    """Messages of images and of the masks of their yellow rectangles."""
    pairs = [coloured_scene(YELLOW, seed) for seed in range(first, first + count)]
    return [png(rgb) for rgb, _ in pairs], [png((n == 4).astype(np.uint8)) for _, n in pairs]
