# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np

from newfound_core.detection.crops import keep_best
from newfound_core.detection.second_look import looks_of_entries, names_of_entries
from newfound_core.detection.unknown_object import UnknownObject


def entry(name, *greys):
    """An unknown object with a crop of each grey, best first."""
    crops = ()
    for frame, grey in enumerate(greys):
        pixels = np.full((20, 20, 3), grey, np.uint8)
        crops = keep_best(crops, pixels, 1.0 - frame / 10, frame, count=9, gap=1)
    box = (1.0, 2.0, 3.0, 4.0)
    return UnknownObject(
        name, "waiting", 3, 1, 2, 5.0, "camera", box, crops, "", math.inf, math.inf
    )


def brightness(images):
    return ["bright" if image.mean() > 128 else "" for image in images]


def test_an_entry_has_the_name_that_all_of_its_best_crops_have():
    entries = [
        entry("u1", 200, 200, 200, 0),
        entry("u2", 200, 0, 200),
        entry("u3", 0, 0),
        entry("u4", 200),
        entry("u5"),
    ]
    assert names_of_entries(entries, brightness) == {"u1": "bright", "u4": "bright"}
    assert names_of_entries([], brightness) == {}


def test_an_entry_looks_as_its_best_crop_does():
    looks = looks_of_entries(
        [entry("u1", 200, 0), entry("u2")], lambda images: np.stack([i.mean() for i in images])
    )
    assert {name: round(float(look)) for name, look in looks.items()} == {"u1": 200}
