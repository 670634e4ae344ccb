# SPDX-License-Identifier: Apache-2.0
"""The table the objects lie on, and the room around it."""

from functools import lru_cache

import numpy as np

from newfound_sim.errors import ScenarioError
from newfound_sim.materials import Material, Texture
from newfound_sim.meshes import block, moved
from newfound_sim.objects.palette import near
from newfound_sim.rendering import Part
from newfound_sim.textures import speckle, wood

BACKGROUNDS = ("white", "brown")
TABLE = (1.8, 1.4)  # metres
_TOP = moved(block((*TABLE, 0.04), 0.004), z=-0.02)
_FLOOR = moved(block((8, 8, 0.02)), z=-0.78)
_WALL = moved(block((8, 0.02, 4)), y=2.2, z=1.0)


@lru_cache(maxsize=32)
def table(background: str, seed: int = 0) -> tuple[Part, ...]:
    """The table top at z = 0, white laminate or brown wood, with a floor and a wall behind.

    Both are matt: a sheen on the table costs a third of the rendering time and is hardly seen.
    """
    if background not in BACKGROUNDS:
        raise ScenarioError(
            f"unknown background '{background}'; the backgrounds are: {', '.join(BACKGROUNDS)}"
        )
    rng = np.random.default_rng([seed, BACKGROUNDS.index(background)])
    top = _laminate(rng) if background == "white" else _wood(rng)
    return (
        Part(_TOP, top),
        Part(_FLOOR, Material("diffuse", near(rng, (0.42, 0.4, 0.38)))),
        Part(_WALL, Material("diffuse", near(rng, (0.72, 0.71, 0.68)))),
    )


def _laminate(rng: np.random.Generator) -> Material:
    picture = speckle(rng, near(rng, (0.9, 0.9, 0.88), 0.03), 0.03, 256)
    return Material("diffuse", texture=Texture(picture, 0.6))


def _wood(rng: np.random.Generator) -> Material:
    light = near(rng, (0.58, 0.39, 0.23), 0.05)
    dark = near(rng, (0.38, 0.23, 0.12), 0.04)
    rings = float(rng.integers(14, 24))
    return Material("diffuse", texture=Texture(wood(rng, light, dark, 512, rings), 0.7))
