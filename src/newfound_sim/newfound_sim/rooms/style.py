# SPDX-License-Identifier: Apache-2.0
"""What makes the rooms of one building alike: materials, proportions, shapes of furniture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from newfound_sim.materials import Colour, Material

Options = tuple[Material, ...]


@dataclass(frozen=True)
class Shell:
    """Walls, floors and openings. `default` serves the categories that are not named."""

    heights: tuple[float, float]  # of ceilings, lowest and highest, metres
    size: float  # rooms are this much larger than usual
    corridor_width: tuple[float, float]
    walls: dict[str, Options]
    floors: dict[str, Options]
    ceiling: Material
    skirting: Material
    skirting_height: float
    beams: bool  # wooden beams under the ceiling
    door: Literal["boarded", "plain", "glazed", "panelled"]
    door_finish: Material
    window: Literal["cross", "ribbon", "grid", "sash"]
    window_finish: Material
    window_size: tuple[float, float]  # wide, high
    sill: float  # height of the window's lower edge
    curtains: float  # probability
    wall_tiles: Options  # for bathrooms and behind the cooker
    tile_height: float  # up to here bathrooms are tiled


@dataclass(frozen=True)
class Furnishing:
    """Shapes and finishes of furniture."""

    legs: Literal["turned", "box", "frame", "tapered"]
    fronts: Literal["boarded", "flat", "slab", "panelled"]
    handle: Literal["knob", "bar", "none", "ring"]
    sofa: Literal["wooden", "boxy", "leather", "rolled"]
    bed: Literal["posts", "plain", "platform", "upholstered"]
    bath: Literal["tub", "shower", "freestanding"]
    lamp: Literal["globe", "panel", "industrial", "chandelier"]
    woods: Options
    fabrics: Options
    leather: Material
    metal: Material
    worktops: Options
    kitchen_fronts: Options
    appliances: Material
    ceramic: Material
    accents: tuple[Colour, ...]
    linen: Options
    rugs: tuple[tuple[Colour, ...], ...]
    rug: Literal["bordered", "striped", "plain"]
    glow: Colour  # colour of lamp light, linear
    clutter: float  # 0 bare to 1 crammed


@dataclass(frozen=True)
class Style:
    """One building."""

    name: str
    shell: Shell
    furnishing: Furnishing
