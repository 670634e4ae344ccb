# SPDX-License-Identifier: Apache-2.0
"""Light sources, and the illumination of the workbench: named, mixed, drifting.

Colours of lights are linear RGB and include the intensity.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from newfound_sim.errors import ScenarioError
from newfound_sim.materials import Colour, rgb

Point = tuple[float, float, float]
DARK: Colour = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Dome:
    """Light from everywhere, as from an overcast sky; `colour` is its radiance."""

    colour: Colour

    def describe(self) -> dict[str, Any]:
        """The emitter as a Mitsuba dictionary."""
        return {"type": "constant", "radiance": rgb(self.colour)}


@dataclass(frozen=True)
class Sun:
    """Parallel light with hard shadows; `colour` is the irradiance it brings."""

    direction: Point  # in which the light travels
    colour: Colour

    def describe(self) -> dict[str, Any]:
        """The emitter as a Mitsuba dictionary."""
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
        """The emitter as a Mitsuba dictionary."""
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
        """The emitter as a Mitsuba dictionary."""
        emitter = {"type": "area", "radiance": rgb(self.colour)}
        return {
            "type": "sphere",
            "center": list(self.centre),
            "radius": self.radius,
            "emitter": emitter,
        }


Light = Dome | Sun | Panel | Bulb


@dataclass(frozen=True)
class Lighting:
    """All lights of the workbench as numbers, so that two lightings can be mixed."""

    dome: Colour = DARK  # light from all around
    ceiling: Colour = DARK  # two lamps overhead
    window: Colour = DARK  # a large soft window to the left
    side: Colour = DARK  # a small lamp near the table, with hard shadows
    side_azimuth: float = 215.0  # degrees, seen from the table's centre; 270 is the viewer
    side_elevation: float = 32.0  # degrees above the table

    def lights(self) -> list[Light]:
        """The sources that are switched on."""
        found: list[Light] = []
        if any(self.dome):
            found.append(Dome(self.dome))
        if any(self.ceiling):
            for x in (-0.45, 0.45):
                found.append(Panel((x, 0.1, 1.5), (x, 0.1, 0.0), 0.3, 0.7, self.ceiling))
        if any(self.window):
            found.append(Panel((-1.8, 0.3, 1.2), (0.0, 0.0, 0.1), 1.2, 1.4, self.window))
        if any(self.side):
            found.append(Bulb(self._lamp(), 0.04, self.side))
        return found

    def _lamp(self, distance: float = 0.95) -> Point:
        around, up = np.radians(self.side_azimuth), np.radians(self.side_elevation)
        level = distance * np.cos(up)
        return level * np.cos(around), level * np.sin(around), distance * np.sin(up)


LIGHTINGS = {
    "artificial": Lighting(dome=(0.07, 0.055, 0.04), ceiling=(7.6, 5.4, 3.1)),
    "cloudy": Lighting(dome=(0.36, 0.43, 0.55), window=(1.1, 1.3, 1.6)),
    "directed": Lighting(dome=(0.022, 0.024, 0.03), side=(760.0, 690.0, 560.0)),
}


def named(name: str) -> Lighting:
    """One of the three illuminations of the workbench."""
    if name not in LIGHTINGS:
        raise ScenarioError(
            f"unknown illumination '{name}'; the illuminations are: {', '.join(LIGHTINGS)}"
        )
    return LIGHTINGS[name]


def mix(a: Lighting, b: Lighting, share: float) -> Lighting:
    """The lighting that is `share` of the way from a to b, 0 to 1."""
    if not 0 <= share <= 1:
        raise ScenarioError(f"the share of a mixture must be in [0, 1], got {share}")
    between: dict[str, Any] = {}
    for field in fields(Lighting):
        start, end = np.asarray(getattr(a, field.name)), np.asarray(getattr(b, field.name))
        value = (1 - share) * start + share * end
        between[field.name] = tuple(map(float, value)) if value.ndim else float(value)
    return Lighting(**between)


def vary(lighting: Lighting, rng: np.random.Generator) -> Lighting:
    """Vary intensity, tint and direction a little."""
    strength = float(np.exp(rng.normal(0, 0.12)))
    tint = np.exp(rng.normal(0, 0.02, 3)) * strength

    def change(colour: Colour) -> Colour:
        red, green, blue = np.asarray(colour) * tint
        return float(red), float(green), float(blue)

    return replace(
        lighting,
        dome=change(lighting.dome),
        ceiling=change(lighting.ceiling),
        window=change(lighting.window),
        side=change(lighting.side),
        side_azimuth=lighting.side_azimuth + rng.uniform(-35, 35),
        side_elevation=lighting.side_elevation + rng.uniform(-8, 8),
    )


@dataclass(frozen=True)
class LightDrift:
    """Light that drifts through the named illuminations while its intensity oscillates."""

    route: tuple[str, ...] = ("artificial", "cloudy", "directed")
    period: float = 60.0  # seconds for the whole route, which then begins again
    sway: float = 0.15  # relative change of strength on the way

    def at(self, seconds: float) -> Lighting:
        """The lighting at a time."""
        place = seconds / self.period * len(self.route)
        leg = int(np.floor(place))
        share = place - leg
        ease = share * share * (3 - 2 * share)
        stops = [named(self.route[i % len(self.route)]) for i in (leg, leg + 1)]
        now = mix(stops[0], stops[1], ease)
        strength = 1 + self.sway * np.sin(2 * np.pi * 3.7 * seconds / self.period)
        turn = 40 * np.sin(2 * np.pi * 1.3 * seconds / self.period)
        scaled: dict[str, Any] = {
            name: tuple(float(strength * c) for c in getattr(now, name))
            for name in ("dome", "ceiling", "window", "side")
        }
        return replace(now, **scaled, side_azimuth=now.side_azimuth + float(turn))
