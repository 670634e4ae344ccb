# SPDX-License-Identifier: Apache-2.0
"""The four buildings: what their rooms are made of and how their furniture is shaped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from newfound_sim.materials import Colour, Material
from newfound_sim.rooms import surfaces as s
from newfound_sim.rooms.names import check

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
    window_categories: tuple[str, ...] = field(
        default=("bathroom", "bedroom", "corridor", "kitchen", "living_room", "office")
    )


def _cottage() -> Style:
    pine, oak = s.wood((0.72, 0.52, 0.31), 1), s.wood((0.55, 0.38, 0.22), 2)
    cream, ochre = s.paint((0.93, 0.88, 0.77)), s.paint((0.9, 0.78, 0.56))
    shell = Shell(
        heights=(2.3, 2.45),
        size=0.9,
        corridor_width=(1.5, 1.9),
        walls={
            "default": (cream, ochre),
            "bedroom": (
                s.motif((0.94, 0.9, 0.82), (0.72, 0.5, 0.5), 0.14),
                s.motif((0.86, 0.9, 0.84), (0.5, 0.62, 0.5), 0.12),
            ),
            "living_room": (ochre, s.paint((0.85, 0.66, 0.5))),
            "kitchen": (s.paint((0.95, 0.9, 0.7)), cream),
            "bathroom": (s.paint((0.8, 0.88, 0.86)), cream),
        },
        floors={
            "default": (s.planks((0.6, 0.4, 0.24), 7, 3), s.planks((0.7, 0.5, 0.3), 8, 4)),
            "kitchen": (s.tiles((0.68, 0.36, 0.25), edge=0.25, grout=(0.6, 0.5, 0.42)),),
            "bathroom": (s.tiles((0.72, 0.42, 0.3), edge=0.2, grout=(0.66, 0.58, 0.5)),),
        },
        ceiling=s.paint((0.95, 0.92, 0.86)),
        skirting=oak,
        skirting_height=0.1,
        beams=True,
        door="boarded",
        door_finish=pine,
        window="cross",
        window_finish=s.paint((0.93, 0.92, 0.88), 0.4),
        window_size=(0.95, 1.0),
        sill=0.85,
        curtains=0.8,
        wall_tiles=(
            s.tiles((0.93, 0.9, 0.82), (0.86, 0.8, 0.66), 0.14),
            s.tiles((0.9, 0.92, 0.9), (0.45, 0.6, 0.7), 0.14),
        ),
        tile_height=1.2,
    )
    furnishing = Furnishing(
        legs="turned",
        fronts="boarded",
        handle="knob",
        sofa="wooden",
        bed="posts",
        bath="tub",
        lamp="globe",
        woods=(pine, oak),
        fabrics=(
            s.checks((0.72, 0.25, 0.2), (0.92, 0.88, 0.78)),
            s.checks((0.3, 0.42, 0.3), (0.9, 0.86, 0.7)),
            s.speckled((0.55, 0.36, 0.25), 0.1),
        ),
        leather=s.paint((0.36, 0.2, 0.12), 0.4),
        metal=s.metal((0.62, 0.5, 0.3), 0.35),
        worktops=(oak, s.wood((0.45, 0.3, 0.17), 5)),
        kitchen_fronts=(pine, s.paint((0.62, 0.7, 0.58), 0.5)),
        appliances=s.paint((0.94, 0.92, 0.85), 0.3),
        ceramic=s.paint((0.95, 0.94, 0.9), 0.12),
        accents=((0.75, 0.22, 0.18), (0.85, 0.65, 0.2), (0.3, 0.45, 0.28), (0.35, 0.4, 0.6)),
        linen=(
            s.checks((0.75, 0.3, 0.28), (0.95, 0.93, 0.88)),
            s.motif((0.95, 0.93, 0.88), (0.4, 0.5, 0.7), 0.12),
        ),
        rugs=(((0.55, 0.16, 0.14), (0.85, 0.7, 0.45), (0.2, 0.25, 0.35)),),
        rug="bordered",
        glow=(1.0, 0.62, 0.3),
        clutter=0.85,
    )
    return Style("cottage", shell, furnishing)


def _institute() -> Style:
    white, grey = s.paint((0.93, 0.93, 0.92)), s.paint((0.82, 0.84, 0.85))
    beech = s.wood((0.82, 0.68, 0.48), 11)
    light = s.paint((0.88, 0.88, 0.86), 0.5)
    shell = Shell(
        heights=(2.75, 2.95),
        size=1.05,
        corridor_width=(2.2, 2.8),
        walls={
            "default": (white, grey),
            "corridor": (white, s.paint((0.85, 0.89, 0.84))),
            "bedroom": (white, s.paint((0.8, 0.87, 0.92))),
            "living_room": (white, s.paint((0.93, 0.87, 0.6))),
        },
        floors={
            "default": (
                s.speckled((0.5, 0.56, 0.58), 0.07, repeat=0.9),
                s.speckled((0.62, 0.6, 0.55), 0.07, repeat=0.9, seed=1),
            ),
            "office": (s.speckled((0.3, 0.36, 0.45), 0.16), s.speckled((0.42, 0.42, 0.42), 0.16)),
            "bathroom": (s.tiles((0.6, 0.62, 0.64), edge=0.1, grout=(0.5, 0.5, 0.5)),),
            "kitchen": (s.tiles((0.76, 0.76, 0.74), edge=0.3, grout=(0.6, 0.6, 0.6)),),
        },
        ceiling=s.tiles((0.92, 0.92, 0.91), edge=0.6, grout=(0.72, 0.72, 0.72)),
        skirting=s.paint((0.35, 0.37, 0.4), 0.5),
        skirting_height=0.08,
        beams=False,
        door="plain",
        door_finish=s.paint((0.2, 0.4, 0.62), 0.4),
        window="ribbon",
        window_finish=s.metal((0.7, 0.7, 0.72), 0.5),
        window_size=(2.4, 1.35),
        sill=0.95,
        curtains=0.1,
        wall_tiles=(s.tiles((0.94, 0.95, 0.95), edge=0.15), s.tiles((0.82, 0.9, 0.93), edge=0.15)),
        tile_height=2.0,
    )
    furnishing = Furnishing(
        legs="frame",
        fronts="flat",
        handle="bar",
        sofa="boxy",
        bed="plain",
        bath="shower",
        lamp="panel",
        woods=(beech, light),
        fabrics=(
            s.speckled((0.16, 0.3, 0.55), 0.12),
            s.speckled((0.75, 0.3, 0.12), 0.1),
            s.speckled((0.25, 0.45, 0.3), 0.1),
        ),
        leather=s.paint((0.1, 0.1, 0.11), 0.4),
        metal=s.metal((0.72, 0.73, 0.75), 0.3),
        worktops=(s.speckled((0.6, 0.6, 0.6), 0.12), s.paint((0.85, 0.85, 0.83), 0.3)),
        kitchen_fronts=(light, s.paint((0.8, 0.82, 0.84), 0.4)),
        appliances=s.paint((0.94, 0.94, 0.94), 0.25),
        ceramic=s.paint((0.96, 0.96, 0.96), 0.1),
        accents=((0.12, 0.35, 0.65), (0.9, 0.45, 0.1), (0.2, 0.55, 0.3), (0.8, 0.15, 0.15)),
        linen=(
            s.stripes(((0.92, 0.93, 0.95), (0.4, 0.55, 0.75)), 0.05),
            s.paint((0.9, 0.91, 0.93)),
        ),
        rugs=(((0.3, 0.4, 0.55), (0.6, 0.65, 0.7), (0.85, 0.6, 0.2)),),
        rug="striped",
        glow=(1.0, 0.93, 0.82),
        clutter=0.45,
    )
    return Style("institute", shell, furnishing)


def _loft() -> Style:
    black = s.paint((0.07, 0.07, 0.08), 0.4)
    walnut = s.wood((0.36, 0.22, 0.13), 21)
    raw = s.wood((0.6, 0.45, 0.3), 22)
    brick = s.bricks((0.62, 0.3, 0.22))
    concrete = s.speckled((0.62, 0.61, 0.6), 0.04, 60, 2.4, 5)
    shell = Shell(
        heights=(3.3, 3.9),
        size=1.2,
        corridor_width=(2.0, 2.5),
        walls={
            "default": (brick, concrete),
            "bathroom": (concrete, s.paint((0.18, 0.24, 0.26))),
            "bedroom": (s.paint((0.25, 0.29, 0.33)), brick),
            "office": (concrete, s.paint((0.9, 0.9, 0.88))),
        },
        floors={
            "default": (concrete, s.planks((0.42, 0.28, 0.18), 9, 6)),
            "bathroom": (s.tiles((0.2, 0.21, 0.22), edge=0.6, grout=(0.35, 0.35, 0.35)),),
        },
        ceiling=s.paint((0.72, 0.71, 0.7)),
        skirting=black,
        skirting_height=0.04,
        beams=False,
        door="glazed",
        door_finish=black,
        window="grid",
        window_finish=black,
        window_size=(2.2, 2.1),
        sill=0.5,
        curtains=0.0,
        wall_tiles=(
            s.tiles((0.95, 0.95, 0.94), edge=0.12, grout=(0.25, 0.25, 0.25), brick=True),
            s.tiles((0.12, 0.25, 0.24), edge=0.12, grout=(0.5, 0.5, 0.5), brick=True),
        ),
        tile_height=2.2,
    )
    furnishing = Furnishing(
        legs="box",
        fronts="slab",
        handle="none",
        sofa="leather",
        bed="platform",
        bath="shower",
        lamp="industrial",
        woods=(walnut, raw),
        fabrics=(s.speckled((0.35, 0.36, 0.38), 0.12), s.speckled((0.8, 0.55, 0.15), 0.1)),
        leather=s.paint((0.48, 0.25, 0.12), 0.35),
        metal=s.metal((0.18, 0.18, 0.19), 0.4),
        worktops=(walnut, s.speckled((0.5, 0.5, 0.5), 0.08, seed=3)),
        kitchen_fronts=(s.paint((0.13, 0.15, 0.17), 0.45), s.paint((0.1, 0.25, 0.28), 0.4)),
        appliances=s.metal((0.68, 0.68, 0.7), 0.35),
        ceramic=s.paint((0.94, 0.94, 0.94), 0.12),
        accents=((0.85, 0.6, 0.1), (0.1, 0.4, 0.42), (0.7, 0.2, 0.12), (0.9, 0.9, 0.88)),
        linen=(s.speckled((0.5, 0.52, 0.55), 0.06), s.paint((0.16, 0.2, 0.26))),
        rugs=(((0.75, 0.73, 0.68),), ((0.2, 0.22, 0.25),)),
        rug="plain",
        glow=(1.0, 0.72, 0.42),
        clutter=0.3,
    )
    return Style("loft", shell, furnishing)


def _townhouse() -> Style:
    mahogany, cherry = s.wood((0.38, 0.15, 0.09), 31), s.wood((0.5, 0.26, 0.14), 32)
    white = s.paint((0.95, 0.94, 0.91), 0.4)
    shell = Shell(
        heights=(2.9, 3.3),
        size=1.0,
        corridor_width=(1.7, 2.1),
        walls={
            "default": (s.paint((0.56, 0.66, 0.6)), s.paint((0.78, 0.74, 0.66))),
            "living_room": (
                s.stripes(((0.55, 0.16, 0.2), (0.62, 0.22, 0.25)), 0.08),
                s.paint((0.2, 0.36, 0.42)),
            ),
            "bedroom": (
                s.stripes(((0.75, 0.8, 0.88), (0.88, 0.9, 0.93)), 0.07),
                s.motif((0.62, 0.55, 0.68), (0.8, 0.74, 0.82), 0.18),
            ),
            "corridor": (
                s.paint((0.83, 0.78, 0.66)),
                s.stripes(((0.82, 0.8, 0.7), (0.88, 0.86, 0.78)), 0.09),
            ),
            "office": (s.paint((0.24, 0.36, 0.28)), s.paint((0.72, 0.64, 0.52))),
            "kitchen": (s.paint((0.72, 0.8, 0.84)), s.paint((0.92, 0.9, 0.84))),
            "bathroom": (s.paint((0.86, 0.78, 0.76)), s.paint((0.7, 0.8, 0.84))),
        },
        floors={
            "default": (s.parquet((0.52, 0.32, 0.17), 7), s.parquet((0.6, 0.4, 0.22), 8)),
            "corridor": (
                s.tiles((0.9, 0.88, 0.84), (0.15, 0.15, 0.16), 0.3),
                s.parquet((0.5, 0.3, 0.16), 7),
            ),
            "kitchen": (s.tiles((0.9, 0.88, 0.84), (0.2, 0.2, 0.22), 0.3),),
            "bathroom": (s.tiles((0.93, 0.92, 0.9), (0.12, 0.13, 0.15), 0.15),),
        },
        ceiling=s.paint((0.96, 0.95, 0.93)),
        skirting=white,
        skirting_height=0.2,
        beams=False,
        door="panelled",
        door_finish=white,
        window="sash",
        window_finish=white,
        window_size=(1.05, 1.9),
        sill=0.55,
        curtains=0.95,
        wall_tiles=(
            s.tiles((0.95, 0.95, 0.93), edge=0.1, brick=True),
            s.marble((0.92, 0.91, 0.89), (0.5, 0.5, 0.52), 3),
        ),
        tile_height=1.5,
    )
    furnishing = Furnishing(
        legs="tapered",
        fronts="panelled",
        handle="ring",
        sofa="rolled",
        bed="upholstered",
        bath="freestanding",
        lamp="chandelier",
        woods=(mahogany, cherry),
        fabrics=(
            s.speckled((0.18, 0.35, 0.3), 0.08),
            s.stripes(((0.8, 0.72, 0.5), (0.5, 0.15, 0.18)), 0.04),
            s.speckled((0.42, 0.2, 0.35), 0.08),
        ),
        leather=s.paint((0.3, 0.1, 0.08), 0.3),
        metal=s.metal((0.83, 0.65, 0.32), 0.25),
        worktops=(
            s.marble((0.9, 0.9, 0.88), (0.45, 0.45, 0.48), 1),
            s.marble((0.16, 0.18, 0.17), (0.6, 0.6, 0.55), 2),
        ),
        kitchen_fronts=(white, s.paint((0.25, 0.35, 0.45), 0.4)),
        appliances=s.paint((0.85, 0.82, 0.74), 0.25),
        ceramic=s.paint((0.96, 0.96, 0.94), 0.1),
        accents=((0.6, 0.12, 0.18), (0.15, 0.3, 0.45), (0.8, 0.65, 0.3), (0.3, 0.4, 0.3)),
        linen=(s.paint((0.94, 0.92, 0.88)), s.motif((0.85, 0.8, 0.84), (0.6, 0.4, 0.5), 0.2)),
        rugs=(
            ((0.5, 0.1, 0.14), (0.85, 0.75, 0.55), (0.12, 0.16, 0.3)),
            ((0.14, 0.2, 0.36), (0.8, 0.7, 0.5), (0.5, 0.14, 0.14)),
        ),
        rug="bordered",
        glow=(1.0, 0.7, 0.4),
        clutter=0.65,
    )
    return Style("townhouse", shell, furnishing)


_MAKERS = {
    "cottage": _cottage,
    "institute": _institute,
    "loft": _loft,
    "townhouse": _townhouse,
}


def style_of(building: str) -> Style:
    """The style of a building, by name."""
    return _MAKERS[check("building", building)]()
