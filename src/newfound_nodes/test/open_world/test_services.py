# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest
from sensor_msgs.msg import CompressedImage

from newfound_nodes.open_world import services
from newfound_nodes.open_world.services import usable_images
from newfound_runtime.services import RequestError

PNG = cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
JPEG = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes()


def image(data=PNG):
    return CompressedImage(format="png", data=data)


def refusal(images):
    with pytest.raises(RequestError) as caught:
        usable_images(images)
    return caught.value.code


def test_images_that_cannot_be_decoded_are_left_out():
    found, problem = usable_images([image(), image(b"junk"), image(JPEG)])
    assert list(found) == ["image_000.png", "image_002.jpg"]
    assert problem.startswith("Image 1: ")
    assert usable_images([]) == ({}, "")


def test_too_many_or_too_large_images_are_bad(monkeypatch):
    assert refusal([image()] * 201) == "BAD_IMAGES"
    monkeypatch.setattr(services, "MOST_BYTES", 10)
    assert refusal([image()] * 2) == "BAD_IMAGES"


def photographs(count, height, width):
    """Images of a camera of today: few bytes, many pixels."""
    pixels = np.full((height, width, 3), 90, np.uint8)
    return [image(cv2.imencode(".jpg", pixels)[1].tobytes())] * count


def test_an_image_of_too_many_pixels_is_left_out():
    images, problem = usable_images([*photographs(1, 4000, 5000), image(), image()])
    assert sorted(images) == ["image_001.png", "image_002.png"]
    assert "5000x4000 is more than 16000000 pixels" in problem


def test_too_many_pixels_together_are_refused_before_all_are_decoded():
    with pytest.raises(RequestError, match="more than 100 megapixels together") as caught:
        usable_images(photographs(200, 3000, 4000))
    assert caught.value.code == "BAD_IMAGES"
