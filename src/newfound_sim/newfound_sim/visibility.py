# SPDX-License-Identifier: Apache-2.0
"""Which objects a rendered frame shows, where, and how much of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from newfound_sim.lights import Dome
from newfound_sim.rendering import Frame, Part, Scene, View
from newfound_sim.truth import SeenObject


def seen_objects(
    frame: Frame, view: View, parts: Mapping[int, Sequence[Part]]
) -> tuple[SeenObject, ...]:
    """The objects of a frame, given the parts that each instance number is made of."""
    masks = frame.masks()
    found = []
    for instance, (left, top, right, bottom) in frame.boxes().items():
        whole = outline_pixels(parts[instance], view)
        visible = min(1.0, float(masks[instance].sum()) / max(whole, 1))
        box = (left, top, right - left, bottom - top)
        found.append(SeenObject(instance, frame.labels[instance], box, round(visible, 4)))
    return tuple(found)


def outline_pixels(parts: Sequence[Part], view: View) -> int:
    """How many pixels the object would cover alone, on a picture without borders."""
    points = np.vstack([part.mesh.vertices @ p[:3, :3].T + p[:3, 3] for part in parts
                        for p in [part.pose]])  # fmt: skip
    pixels = view.project(points)
    inside = (pixels >= 0).all() and (pixels <= (view.width - 1, view.height - 1)).all()
    canvas = view if inside else widened(view)
    alone = Scene(parts, [Dome((1.0, 1.0, 1.0))])
    frame = alone.render(canvas, samples=1, bounces=1, denoise=False)
    return int((frame.instances > 0).sum())


def widened(view: View) -> View:
    """The same camera with a sensor three times as wide and high; pixels keep their size."""
    wide = np.degrees(2 * np.arctan(3 * np.tan(np.radians(view.fov_degrees) / 2)))
    return replace(view, width=3 * view.width, height=3 * view.height, fov_degrees=float(wide))
