# SPDX-License-Identifier: Apache-2.0
"""The town house: tall sash windows, parquet, wallpaper, dark polished wood, brass."""

from newfound_sim.rooms import surfaces as s
from newfound_sim.rooms.style import Furnishing, Shell, Style


def townhouse() -> Style:
    """Town house style."""
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
                s.tiles((0.9, 0.88, 0.84), (0.15, 0.15, 0.16), edge=0.3),
                s.parquet((0.5, 0.3, 0.16), 7),
            ),
            "kitchen": (s.tiles((0.9, 0.88, 0.84), (0.2, 0.2, 0.22), edge=0.3),),
            "bathroom": (s.tiles((0.93, 0.92, 0.9), (0.12, 0.13, 0.15), edge=0.15),),
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
