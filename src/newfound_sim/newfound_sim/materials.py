# SPDX-License-Identifier: Apache-2.0
"""Materials, and how they become Mitsuba BSDFs. Colours are sRGB in [0, 1]."""

from dataclasses import dataclass
from typing import Any, Literal

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
    """A linear colour as Mitsuba wants it."""
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
