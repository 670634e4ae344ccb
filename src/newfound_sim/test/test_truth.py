# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import asdict

import pytest

from newfound_sim.truth import SeenObject, Truth


def test_truth_survives_a_trip_through_json():
    truth = Truth((SeenObject(2, "mug", (1, 2, 3, 4), 0.5),), "", "a_b_c", "a", "d", 0.25)
    assert Truth.from_json(json.loads(json.dumps(asdict(truth)))) == truth


@pytest.mark.parametrize("box", [[1, 2, 3], [-1, 2, 3, 4], "abcd"])
def test_a_box_that_is_none_is_refused(box):
    objects = [{"instance": 1, "label": "mug", "box": box, "visible": 1.0}]
    with pytest.raises((ValueError, TypeError)):
        Truth.from_json({**asdict(Truth()), "objects": objects})
