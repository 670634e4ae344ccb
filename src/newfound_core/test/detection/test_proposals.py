# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.proposals import Proposals, WholeImage
from newfound_core.errors import DataError


def test_every_box_has_a_score():
    with pytest.raises(DataError, match="2 scores"):
        Proposals(np.zeros((1, 4), np.float32), np.zeros(2, np.float32))
    assert len(Proposals.none()) == 0


def test_the_image_is_the_only_box():
    found = WholeImage().propose(np.zeros((48, 64, 3), np.uint8), None)
    assert found.boxes.tolist() == [[0, 0, 64, 48]]
    assert found.objectness.tolist() == [1]
