# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest

from newfound_core.errors import DataError
from newfound_core.open_world.memory import Sample
from newfound_core.preprocessing import Preprocessing
from newfound_training.openworld.exemplars import reduced


def photograph(height: int, width: int) -> Sample:
    """A smooth picture, as a camera takes it."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([255 * y / height, 255 * x / width, np.full_like(x, 90)], axis=2)
    return Sample(cv2.imencode(".png", pixels.astype(np.uint8))[1].tobytes(), "mug", "camera")


@pytest.mark.parametrize("shape", [(3000, 4000), (640, 700), (2561, 641)])
def test_a_large_image_becomes_two_to_four_times_the_input_and_looks_the_same(shape):
    sample = photograph(*shape)
    kept = reduced(sample, 160)
    assert 320 <= min(kept.pixels().shape[:2]) < 640
    assert kept.pixels().shape[1] / kept.pixels().shape[0] == pytest.approx(
        shape[1] / shape[0], rel=0.01
    )
    assert (kept.label, kept.source) == ("mug", "camera")
    resized = Preprocessing(160).resized
    before, after = resized(sample.pixels()).astype(int), resized(kept.pixels()).astype(int)
    assert np.abs(before - after).mean() < 2, "what a JPEG costs"


@pytest.mark.parametrize("shape", [(100, 80), (639, 2000)])
def test_an_image_that_is_small_enough_stays_as_it_is_in_its_file(shape):
    sample = photograph(*shape)
    assert reduced(sample, 160) is sample


def test_what_cannot_be_decoded_is_an_error():
    with pytest.raises(DataError):
        reduced(Sample(b"junk", "mug"), 160)
