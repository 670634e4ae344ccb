# SPDX-License-Identifier: Apache-2.0
"""Materials as Mitsuba BSDFs, and procedural textures. Colours are sRGB in [0, 1].

The grain of a texture runs along the first axis of the surface.
"""

from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np

Colour = tuple[float, float, float]
Kind = Literal["diffuse", "plastic", "rough_metal", "metal", "glass", "emitter"]
DEFAULT_ROUGHNESS = {"diffuse": 1.0, "plastic": 0.3, "rough_metal": 0.45, "metal": 0.22}


@dataclass(frozen=True, eq=False)
class Texture:
    """A picture that repeats over a surface."""

    image: np.ndarray  # [H, W, 3] uint8, sRGB
    repeat: float = 1.0  # metres until it repeats


@dataclass(frozen=True, eq=False)
class Material:
    """What a surface is made of."""

    kind: Kind = "diffuse"
    colour: Colour = (0.8, 0.8, 0.8)
    roughness: float | None = None  # 0 is a mirror, 1 is matt; None takes the kind's usual one
    texture: Texture | None = None  # replaces the colour
    radiance: float = 1.0  # only for emitters: multiplies the colour


def linear(colour: Colour | np.ndarray) -> np.ndarray:
    """Turn sRGB in [0, 1] into linear light."""
    c = np.clip(np.asarray(colour, dtype=float), 0.0, 1.0)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def rgb(value: Colour | np.ndarray) -> dict[str, Any]:
    """A linear colour as a Mitsuba dictionary."""
    return {"type": "rgb", "value": [float(v) for v in value]}


def bsdf(material: Material) -> dict[str, Any]:
    """The Mitsuba description of a material."""
    if material.kind == "emitter":
        return {"type": "diffuse", "reflectance": rgb((0.0, 0.0, 0.0))}
    if material.kind == "glass":
        return {"type": "thindielectric", "specular_transmittance": rgb(linear(material.colour))}
    if material.kind == "diffuse":
        return {"type": "twosided", "bsdf": {"type": "diffuse", "reflectance": _base(material)}}
    roughness = material.roughness
    # The principled BSDF loads in no time; roughplastic would integrate tables for 60 ms each.
    principled = {
        "type": "principled",
        "base_color": _base(material),
        "roughness": DEFAULT_ROUGHNESS[material.kind] if roughness is None else roughness,
        "metallic": 1.0 if material.kind in ("metal", "rough_metal") else 0.0,
        "specular": 0.5,
    }
    return {"type": "twosided", "bsdf": principled}


def _base(material: Material) -> dict[str, Any]:
    if material.texture is None:
        return rgb(linear(material.colour))
    import mitsuba as mi

    return {"type": "bitmap", "bitmap": mi.Bitmap(np.ascontiguousarray(material.texture.image))}


def smooth_noise(rng: np.random.Generator, height: int, width: int, cells: tuple) -> np.ndarray:
    """Noise in [0, 1] that repeats without a seam; `cells` says how many bumps down and across."""
    coarse = rng.random(cells, dtype=np.float32)
    wrapped = np.pad(coarse, 2, mode="wrap")
    scale = height / cells[0], width / cells[1]
    size = (round(wrapped.shape[1] * scale[1]), round(wrapped.shape[0] * scale[0]))
    large = cv2.resize(wrapped, size, interpolation=cv2.INTER_CUBIC)
    top, left = round(2 * scale[0]), round(2 * scale[1])
    return np.clip(large[top : top + height, left : left + width], 0, 1)


def wood(
    rng: np.random.Generator, light: Colour, dark: Colour, size: int = 256, rings: float = 9.0
) -> np.ndarray:
    """Wooden grain along the rows, uint8 sRGB."""
    wave = smooth_noise(rng, size, size, (3, 2)) * 1.3
    fibre = smooth_noise(rng, size, size, (size // 3, 6))
    y = np.linspace(0, 1, size, endpoint=False)[:, None]
    grain = 0.5 + 0.5 * np.sin(2 * np.pi * (np.rint(rings) * y + wave))
    mix = np.clip(0.55 * grain + 0.5 * fibre - 0.1, 0, 1)[..., None]
    return _bytes(np.asarray(light) * (1 - mix) + np.asarray(dark) * mix)


def speckle(
    rng: np.random.Generator, base: Colour, contrast: float = 0.06, size: int = 128
) -> np.ndarray:
    """A plain colour with slight blotches: paint, laminate, cardboard, plaster."""
    blotch = smooth_noise(rng, size, size, (8, 8)) + smooth_noise(rng, size, size, (40, 40))
    return _bytes(np.asarray(base) + contrast * (blotch[..., None] - 1))


def stripes(colours: list[Colour], size: int = 128) -> np.ndarray:
    """Equal stripes that run along the rows."""
    rows = np.arange(size) * len(colours) // size
    return _bytes(np.repeat(np.asarray(colours)[rows][:, None], size, axis=1))


def _bytes(colour: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(colour, 0, 1) * 255).astype(np.uint8)
