# SPDX-License-Identifier: Apache-2.0
import array

import numpy as np
import pytest
from std_msgs.msg import Header

from newfound_runtime import images
from newfound_runtime.recordings import camera_info
from newfound_sim import camera_messages as messages
from newfound_sim.clip import SeenObject, Truth
from newfound_sim.player import Pixels
from newfound_sim.rendering import View

HEADER = Header(frame_id="camera")


def test_an_image_is_read_back_as_it_was():
    picture = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    message = messages.image(HEADER, Pixels.of(picture))
    np.testing.assert_array_equal(images.to_rgb(message), picture)
    assert message.header == HEADER


def test_depth_is_read_back_in_metres():
    depth = np.array([[500, 1500, 0]], np.uint16)
    message = messages.image(HEADER, Pixels.of(depth))
    np.testing.assert_allclose(images.to_depth(message), [[0.5, 1.5, 0.0]])


def test_camera_info_projects_as_the_renderer_does():
    view = View((0, 0, 0), (0, 1, 0), 64, 48, fov_degrees=70)
    k = messages.pinhole(64, 48, 70)
    np.testing.assert_allclose(np.reshape(k, (3, 3)), view.intrinsics)
    info = camera_info(HEADER, 64, 48, k)
    p = np.reshape(info.p, (3, 4))
    for point in ([0.3, 2.0, -0.2], [-0.5, 3.0, 0.4]):  # world: x right, y ahead, z up
        u, v, w = p @ [point[0], -point[2], point[1], 1.0]
        np.testing.assert_allclose((u / w, v / w), view.project(np.array([point]))[0])
    assert 2 * np.degrees(np.arctan(0.5 * 64 / info.k[0])) == pytest.approx(70)


def test_truth_becomes_a_message():
    truth = Truth((SeenObject(3, "mug", (1, 2, 30, 40), 0.5),), "", "a_b_c", "a", "d", 0.25)
    message = messages.ground_truth(HEADER, truth)
    assert message.annotated
    (seen,) = message.objects
    assert (seen.label, seen.instance, seen.visible) == ("mug", 3, 0.5)
    box = seen.region
    assert (box.x_offset, box.y_offset, box.width, box.height) == (1, 2, 30, 40)
    assert (message.domain, message.illumination, message.next_illumination) == ("a_b_c", "a", "d")
    assert not messages.ground_truth(HEADER, None).annotated


def test_a_jpeg_says_so():
    message = messages.compressed(HEADER, array.array("B", b"\xff\xd8"))
    assert "jpeg" in message.format
