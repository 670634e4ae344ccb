# SPDX-License-Identifier: Apache-2.0
"""The institute: white walls, linoleum, steel and beech, ribbon windows, panel lamps."""

from newfound_sim.rooms import surfaces as s
from newfound_sim.rooms.style import Furnishing, Shell, Style


def institute() -> Style:
    """Institute style."""
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
