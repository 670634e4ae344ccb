# SPDX-License-Identifier: Apache-2.0
"""The loft: brick, concrete and black steel, high ceilings, large grid windows, few things."""

from newfound_sim.rooms import surfaces as s
from newfound_sim.rooms.style import Furnishing, Shell, Style


def loft() -> Style:
    """Loft style."""
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
