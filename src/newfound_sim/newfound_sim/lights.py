# SPDX-License-Identifier: Apache-2.0
"""Light sources. Their colours are linear RGB and carry the strength."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from newfound_sim.materials import Colour, rgb

Point = tuple[float, float, float]


@dataclass(frozen=True)
class Dome:
    """Light from everywhere, as from an overcast sky; `colour` is its radiance."""

    colour: Colour

    def describe(self) -> dict[str, Any]:
        """The light for Mitsuba."""
        return {"type": "constant", "radiance": rgb(self.colour)}


@dataclass(frozen=True)
class Sun:
    """Parallel light with hard shadows; `colour` is the irradiance it brings."""

    direction: Point  # in which the light travels
    colour: Colour

    def describe(self) -> dict[str, Any]:
        """The light for Mitsuba."""
        return {
            "type": "directional",
            "direction": list(self.direction),
            "irradiance": rgb(self.colour),
        }


@dataclass(frozen=True)
class Panel:
    """A luminous rectangle, as a ceiling lamp or a bright window; shines towards `target`."""

    centre: Point
    target: Point
    width: float
    height: float
    colour: Colour  # radiance

    def describe(self) -> dict[str, Any]:
        """The light for Mitsuba."""
        import mitsuba as mi

        forward = np.subtract(self.target, self.centre)
        up = [0, 1, 0] if abs(forward[2]) > 0.9 * np.linalg.norm(forward) else [0, 0, 1]
        look = mi.ScalarTransform4f().look_at(
            origin=list(self.centre), target=list(self.target), up=up
        )
        size = mi.ScalarTransform4f().scale([self.width / 2, self.height / 2, 1])
        emitter = {"type": "area", "radiance": rgb(self.colour)}
        return {"type": "rectangle", "to_world": look @ size, "emitter": emitter}


@dataclass(frozen=True)
class Bulb:
    """A luminous ball; the smaller, the harder its shadows."""

    centre: Point
    radius: float
    colour: Colour  # radiance

    def describe(self) -> dict[str, Any]:
        """The light for Mitsuba."""
        emitter = {"type": "area", "radiance": rgb(self.colour)}
        return {
            "type": "sphere",
            "center": list(self.centre),
            "radius": self.radius,
            "emitter": emitter,
        }


Light = Dome | Sun | Panel | Bulb
