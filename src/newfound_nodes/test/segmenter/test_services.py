# SPDX-License-Identifier: Apache-2.0
"""What is asked of images and masks before a job is made of them."""

import numpy as np
import pytest
from sensor_msgs.msg import CompressedImage

from newfound_nodes.segmenter.services import usable_pairs
from newfound_runtime.images import jpeg_message
from newfound_runtime.services import RequestError

from .conftest import png, yellow_things

IMAGES, MASKS = yellow_things(3)
EMPTY = png(np.zeros((48, 64), np.uint8))
LARGE = png(np.zeros((4100, 4100), np.uint8))


def test_every_image_keeps_its_mask():
    images, masks = usable_pairs(IMAGES, MASKS)
    assert list(images) == list(masks) == [f"image_{n:03d}.png" for n in range(3)]
    assert masks["image_002.png"] == bytes(MASKS[2].data)


def test_images_without_the_class_are_welcome():
    assert len(usable_pairs([*IMAGES, IMAGES[0]], [*MASKS, EMPTY])[0]) == 4


@pytest.mark.parametrize(
    ("images", "masks", "reason"),
    [
        ([], [], "0 images, at least 2"),
        (IMAGES[:1], MASKS[:1], "1 images, at least 2"),
        (IMAGES, MASKS[:2], "3 images have 2 masks"),
        (IMAGES, [MASKS[0], EMPTY, EMPTY], "1 of 3 masks show the class"),
        (IMAGES, [*MASKS[:2], png(np.full((48, 64), 7, np.uint8))], "Mask 2: .* labelled 7"),
        (IMAGES, [*MASKS[:2], png(np.ones((24, 32), np.uint8))], "32x24 pixels, its image 64x48"),
        (IMAGES, [*MASKS[:2], png(np.ones((48, 64, 3), np.uint8))], "no 8-bit grey PNG but RGB"),
        (IMAGES, [*MASKS[:2], png(np.ones((48, 64), np.uint16))], "no 8-bit grey PNG but I"),
        (IMAGES, [*MASKS[:2], jpeg_message(None, np.ones((48, 64, 3), np.uint8))], "Mask 2: not"),
        (IMAGES, [*MASKS[:2], CompressedImage(data=MASKS[2].data[:60])], "Mask 2: not a PNG"),
        ([*IMAGES[:2], CompressedImage(data=b"no")], MASKS, "Image 2"),
        ([*IMAGES[:2], LARGE], [*MASKS[:2], LARGE], "4100x4100 is more than 16000000 pixels"),
        (IMAGES * 67, MASKS * 67, "201 images, at most 200"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_reason(images, masks, reason):
    with pytest.raises(RequestError, match=reason) as refused:
        usable_pairs(images, masks)
    assert refused.value.code == "BAD_IMAGES"
