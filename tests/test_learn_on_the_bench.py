# SPDX-License-Identifier: Apache-2.0
"""How learning on the bench is measured; the measurement itself is `python -m` of its module."""

import numpy as np
import pytest

from newfound_training.detector.measures import Scene
from tests.bench_films import ARCS
from tests.learn_on_the_bench import MET, mistaken, names_given, strangers_named

BOXES = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [60, 0, 70, 10]], float)


def test_a_new_name_given_to_other_things_is_counted():
    truth = ("mug", "ball", "carrot", "carrot")
    said = ("mug", "ball", "ball")  # the last carrot is not found
    scene = Scene(BOXES, truth, BOXES[:3], said, (1.0,) * 3)
    names = names_given([scene])
    assert names == {
        ("mug", "mug"): 1,
        ("ball", "ball"): 1,
        ("carrot", "ball"): 1,
        ("carrot", ""): 1,
    }
    assert mistaken(names, "ball") == pytest.approx(1 / 3)
    assert strangers_named(names, ["carrot"]) == pytest.approx(1 / 2)
    assert strangers_named(names, []) is None


def test_what_comes_soon_after_a_meeting_is_seen_from_another_side():
    eyes = np.array([pose.eye for pose in ARCS["meeting"].poses()])
    around = np.degrees(np.unwrap(np.arctan2(eyes[:, 1] - 0.02, eyes[:, 0])))
    assert len(eyes) > MET
    assert np.ptp(around[:MET]) > 120
    assert (np.diff(around) > 0).all()  # so no side comes twice
