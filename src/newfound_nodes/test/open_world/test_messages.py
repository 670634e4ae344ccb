# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import numpy as np

from newfound_nodes.open_world.frame_session import FrameResult
from newfound_nodes.open_world.messages import KNOWN, UNKNOWN, annotate


def detection(left, label):
    return SimpleNamespace(
        box=np.array([left, 40, left + 30, 80], np.float32),
        label=label,
        known=bool(label),
        nearest_label="mug",
        distance=1.0,
        rejection_threshold=float("inf"),
    )


def test_known_and_unknown_things_have_boxes_of_different_colours():
    rgb = np.zeros((120, 160, 3), np.uint8)
    rgb.flags.writeable = False
    picture = annotate(
        rgb,
        FrameResult(
            1, [detection(10, "Tasse ☕"), detection(100, "")], [1, 2], ["", ""], ["", ""]
        ),
    )
    assert tuple(picture[79, 20]) == KNOWN
    assert tuple(picture[79, 110]) == UNKNOWN
    assert rgb.max() == 0
