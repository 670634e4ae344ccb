# SPDX-License-Identifier: Apache-2.0
import numpy as np

from newfound_core.detection.whole_image import WholeImage


def test_the_image_is_the_only_box():
    found = WholeImage().propose(np.zeros((48, 64, 3), np.uint8), None)
    assert found.boxes.tolist() == [[0, 0, 64, 48]]
    assert found.objectness.tolist() == [1]
