# SPDX-License-Identifier: Apache-2.0
"""Images of bags read without ROS, against rclpy and the nodes' own conversions."""

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image

from newfound_core.bag_images import COMPRESSED, RAW, BagImages, decode_image
from newfound_core.errors import FrameError, RecordingError
from newfound_runtime.bag_testing import (
    START,
    camera_messages,
    compressed,
    header,
    write_db3,
    write_mcap,
)
from newfound_runtime.images import decode, to_rgb


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "rgba8", "mono8", "yuyv", "bayer_rggb8"])
def test_pixels_are_those_that_the_nodes_see(encoding):
    channels = {"rgba8": 4, "mono8": 1, "yuyv": 2, "bayer_rggb8": 1}.get(encoding, 3)
    step = 8 * channels + 4  # rows may be longer than the image
    data = np.random.default_rng(0).integers(0, 256, 6 * step).astype(np.uint8).tobytes()
    message = Image(header=header(START, "an odd name"), height=6, width=8, encoding=encoding)
    message.step, message.data = step, data
    found = decode_image(serialize_message(message), RAW)
    np.testing.assert_array_equal(found, to_rgb(message))


def test_compressed_images_are_those_that_the_nodes_see():
    rgb = np.random.default_rng(0).integers(0, 256, (24, 32, 3)).astype(np.uint8)
    message = compressed(START, rgb)
    found = decode_image(serialize_message(message), COMPRESSED).astype(int)
    assert abs(found - decode(message)).max() <= 3  # two decoders of JPEG


@pytest.mark.parametrize("storage", ["mcap", "db3"])
def test_frames_of_the_colour_camera_come_in_order(tmp_path, storage):
    messages = camera_messages()
    path = tmp_path / ("a.mcap" if storage == "mcap" else "bag")
    path = (write_mcap if storage == "mcap" else write_db3)(path, messages)
    images = BagImages(path)
    assert images.topic.name == "/front/image_raw"
    assert [int(images.read(n).mean()) for n in range(len(images))] == [0, 20, 40, 60, 80]
    images.close()


def test_of_two_cameras_one_must_be_chosen(tmp_path):
    messages = camera_messages()
    messages += [("/rear/image_raw", m, at) for topic, m, at in messages if "image_raw" in topic]
    path = write_mcap(tmp_path / "a.mcap", messages)
    with pytest.raises(RecordingError, match="/front/image_raw, /rear/image_raw"):
        BagImages(path)
    BagImages(path, "/rear/image_raw").close()
    with pytest.raises(RecordingError, match="no images on /left"):
        BagImages(path, "/left")


def test_a_damaged_message_is_a_frame_error(tmp_path):
    broken = Image(header=header(START), height=6, width=8, encoding="rgb8", step=24)
    path = write_mcap(tmp_path / "a.mcap", [("/image", broken, START)])
    images = BagImages(path)
    with pytest.raises(FrameError, match="message 0 of /image is damaged: 0 bytes"):
        images.read(0)
    images.close()
    with pytest.raises(ValueError, match="bytes"):
        decode_image(b"", RAW)
