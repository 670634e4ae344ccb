# SPDX-License-Identifier: Apache-2.0
"""The contact sheets of the documentation: every class, and one bench in all twelve domains."""

from collections.abc import Sequence

import numpy as np

from newfound_sim.arranging import arrange
from newfound_sim.contact_sheet import contact_sheet
from newfound_sim.generate import crop
from newfound_sim.illumination import LightDrift, named
from newfound_sim.objects import CLASSES
from newfound_sim.workbench import DOMAINS, Bench, render_bench

SHOWN = ("claw_hammer", "combination_pliers", "mug", "banana", "flat_screwdriver", "tape_roll")


def classes_sheet(
    classes: Sequence[str] = CLASSES, each: int = 3, size: int = 128, samples: int = 24
) -> np.ndarray:
    """A few instances of every class side by side, in three domains."""
    conditions = ["cloudy_webcam_white", "artificial_webcam_white", "cloudy_webcam_brown"]
    pictures, captions = [], []
    for label in classes:
        for number in range(each):
            domain = conditions[number % len(conditions)]
            pictures.append(crop(domain, label, number, size=size, samples=samples, seed=7).rgb)
            captions.append(label.replace("_", " ") if number == 0 else "")
    return contact_sheet(pictures, captions, columns=3 * each)


def domains_sheet(width: int = 320, height: int = 240, samples: int = 32) -> np.ndarray:
    """The same bench in the twelve domains."""
    objects = arrange(np.random.default_rng(4), SHOWN, range(len(SHOWN)))
    pictures = []
    for domain in DOMAINS.values():
        bench = Bench(objects, named(domain.illumination), domain.background)
        frame = render_bench(
            bench, domain.camera, width=width, height=height, samples=samples, seed=1
        )
        pictures.append(frame.rgb)
    return contact_sheet(pictures, [name.replace("_", ", ") for name in DOMAINS], columns=4)


def drift_sheet(width: int = 240, height: int = 180, samples: int = 24) -> np.ndarray:
    """The same bench while the light drifts through a minute."""
    objects = arrange(np.random.default_rng(4), SHOWN, range(len(SHOWN)))
    drift, times = LightDrift(), np.arange(0, 60, 7.5)
    pictures = [
        render_bench(
            Bench(objects, drift.at(t)), width=width, height=height, samples=samples, seed=1
        ).rgb
        for t in times
    ]
    return contact_sheet(pictures, [f"{t:.1f} s" for t in times], columns=4)
