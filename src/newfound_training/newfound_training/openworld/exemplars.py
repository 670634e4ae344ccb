# SPDX-License-Identifier: Apache-2.0
"""New images as they are remembered: no larger than the network has a use for."""

from dataclasses import replace

import cv2

from newfound_core.open_world.memory import Sample

_QUALITY = 95  # of a JPEG, 1 to 100


def reduced(sample: Sample, size: int) -> Sample:
    """The sample with sides of two to four times the network's input, if both are larger.

    Halved by averaging, as the network's own preprocessing begins: it sees the same. Raises a
    DataError if the image cannot be decoded.
    """
    pixels = sample.pixels()
    if min(pixels.shape[:2]) < 4 * size:
        return sample
    while min(pixels.shape[:2]) >= 4 * size:
        half = (pixels.shape[1] // 2, pixels.shape[0] // 2)
        pixels = cv2.resize(pixels, half, interpolation=cv2.INTER_AREA)
    quality = [cv2.IMWRITE_JPEG_QUALITY, _QUALITY]
    bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    return replace(sample, image=cv2.imencode(".jpg", bgr, quality)[1].tobytes())
