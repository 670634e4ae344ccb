# SPDX-License-Identifier: Apache-2.0
"""The cottage: low beams, pine and tiles, small windows with curtains, full of things."""

from newfound_sim.rooms import surfaces as s
from newfound_sim.rooms.style import Furnishing, Shell, Style


def cottage() -> Style:
    """Cottage style."""
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
            s.tiles((0.93, 0.9, 0.82), (0.86, 0.8, 0.66), edge=0.14),
            s.tiles((0.9, 0.92, 0.9), (0.45, 0.6, 0.7), edge=0.14),
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
