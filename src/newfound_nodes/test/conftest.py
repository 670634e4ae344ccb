# SPDX-License-Identifier: Apache-2.0
"""Checkpoints small enough that a node with a real model starts at once."""

import numpy as np
import pytest

from newfound_runtime.testing import eventually, image
from newfound_runtime.testing import ros as ros  # a fixture


@pytest.fixture
def checkpoint(tmp_path):
    """Writes a checkpoint of a tiny random network and returns its folder."""

    def make(method="source", name="", **options):
        from newfound_core.testing import tiny

        return tiny(tmp_path / (name or method), method, **options)

    return make


@pytest.fixture
def picture():
    """An image message with noise of its own, whose stamp says its number."""
    import array

    def make(number=0, brightness=1.0):
        message = image(64, 48, number)
        pixels = np.random.default_rng(number).integers(0, 255, 64 * 48 * 3) * brightness
        message.data = array.array("B", pixels.astype(np.uint8).tobytes())
        return message

    return make


@pytest.fixture
def stream(ros, picture):
    """A camera for a node: sends pictures one by one, each once the last was processed."""

    class Camera:
        def __init__(self, topic="/image"):
            from sensor_msgs.msg import Image

            self.publisher, self.number = ros.publisher(Image, topic), 0

        def connect(self, node):
            ros.connected(self.publisher)
            eventually(lambda: node._input.reliability() == "reliable", "reliable subscription")
            return self

        def send(self, node, count=1, brightness=1.0):
            for _ in range(count):
                counters = node._input.counters
                before = counters.processed + counters.failed
                self.number += 1
                self.publisher.publish(picture(self.number, brightness))
                eventually(lambda c=counters, b=before: c.processed + c.failed > b)

    return Camera
