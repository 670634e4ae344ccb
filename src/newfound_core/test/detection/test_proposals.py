# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.proposals import Proposals
from newfound_core.errors import DataError


def test_every_box_has_a_score():
    with pytest.raises(DataError, match="2 scores"):
        Proposals(np.zeros((1, 4), np.float32), np.zeros(2, np.float32))
    assert len(Proposals.none()) == 0
