# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from sensor_msgs.msg import CompressedImage

from newfound_core.detection.crops import Crop
from newfound_core.open_world.job import LearningOptions
from newfound_msgs.srv import AddUnknownClass
from newfound_nodes.open_world import requests
from newfound_nodes.open_world.job_folders import unknown_of
from newfound_nodes.open_world.requests import RefusedError, learning_job

PNG = cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
JPEG = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes()


def image(data=PNG):
    return CompressedImage(format="png", data=data)


def entry(state="waiting"):
    return SimpleNamespace(state=state, label="vase", crops=[Crop(JPEG, 1.0, 0)] * 3)


def ask(label="vase", images=(), unknown_id="", unknown=entry):
    request = AddUnknownClass.Request(label=label, unknown_id=unknown_id, images=list(images))
    found = {"u1": unknown()} if unknown else {}
    return learning_job(request, ["mug"], ["fork"], found.get, LearningOptions())


def refusal(**request):
    with pytest.raises(RefusedError) as caught:
        ask(**request)
    return caught.value.code


def test_crops_of_an_unknown_and_images_are_both_used():
    job, images = ask(images=[image(), image(b"junk"), image(JPEG)], unknown_id="u1")
    assert sorted(images) == [
        "crop_000.jpg", "crop_001.jpg", "crop_002.jpg", "image_000.png", "image_002.jpg",
    ]  # fmt: skip
    assert unknown_of(job) == "u1"
    assert (job.label, job.knowledge) == ("vase", "../../current")


def test_images_alone_will_do():
    job, images = ask(images=[image(), image()])
    assert (len(images), unknown_of(job)) == (2, "")


def test_labels_that_are_known_or_being_learned_exist():
    assert refusal(label="mug", images=[image()] * 2) == "LABEL_EXISTS"
    assert refusal(label="fork", images=[image()] * 2) == "LABEL_EXISTS"
    learning = {"unknown": lambda: entry("learning")}
    assert refusal(unknown_id="u1", **learning) == "LABEL_EXISTS"


def test_a_label_that_cannot_be_is_invalid():
    assert refusal(label="../mug", images=[image()] * 2) == "INVALID_LABEL"


def test_an_id_that_nobody_has_is_unknown():
    assert refusal(unknown_id="u2") == "UNKNOWN_ID"


def test_too_few_too_many_or_too_large_images_are_bad(monkeypatch):
    assert refusal(images=[]) == "BAD_IMAGES"
    assert refusal(images=[image()]) == "BAD_IMAGES"
    assert refusal(images=[image(b"junk"), image(PNG[:20]), image()]) == "BAD_IMAGES"
    assert refusal(images=[image()] * 201) == "BAD_IMAGES"
    monkeypatch.setattr(requests, "MOST_BYTES", 10)
    assert refusal(images=[image()] * 2) == "BAD_IMAGES"


def photographs(count, height, width):
    """Images of a camera of today: few bytes, many pixels."""
    pixels = np.full((height, width, 3), 90, np.uint8)
    return [image(cv2.imencode(".jpg", pixels)[1].tobytes())] * count


def test_an_image_of_too_many_pixels_is_left_out():
    _, images = ask(images=[*photographs(1, 4000, 5000), image(), image()])
    assert sorted(images) == ["image_001.png", "image_002.png"]
    with pytest.raises(RefusedError, match="5000x4000 is more than 16000000 pixels"):
        ask(images=photographs(2, 4000, 5000))


def test_too_many_pixels_together_are_refused_before_all_are_decoded():
    with pytest.raises(RefusedError, match="more than 100 megapixels together") as caught:
        ask(images=photographs(200, 3000, 4000))
    assert caught.value.code == "BAD_IMAGES"
