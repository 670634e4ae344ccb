# SPDX-License-Identifier: Apache-2.0
"""Bottles, cans and other turned things, standing on z = 0."""

import numpy as np

from newfound_sim.materials import Material, Texture, stripes
from newfound_sim.meshes import curve, lathe, moved, plate, stroke, turned
from newfound_sim.objects.palette import Piece, Rng, hue, near, pick, plastic, steel


def bottle(rng: Rng) -> list[Piece]:
    """A body, shoulders, a neck, a cap and a label."""
    r, height = rng.uniform(0.030, 0.038), rng.uniform(0.2, 0.27)
    shoulder, neck = height * rng.uniform(0.58, 0.72), rng.uniform(0.0115, 0.014)
    base = [(0, 0), (r * 0.9, 0), (r, 0.006), (r, shoulder)]
    slope = curve([(r, shoulder), (r * 0.8, shoulder + 0.12 * height), (neck, height * 0.89)], 10)
    body = lathe([*base, *slope[1:], (neck, height * 0.94), (0, height * 0.94)], 40)
    top = height * 0.92
    cap = [(0, top), (neck * 1.2, top), (neck * 1.2, height * 0.995), (neck, height), (0, height)]
    tint = pick(rng, (0.1, 0.35, 0.15), (0.35, 0.18, 0.07), (0.75, 0.85, 0.9), (0.15, 0.35, 0.7))
    z0, z1 = shoulder * rng.uniform(0.15, 0.3), shoulder * rng.uniform(0.75, 0.92)
    label = lathe([(r - 0.001, z0), (r + 0.0006, z0), (r + 0.0006, z1), (r - 0.001, z1)], 40)
    return [
        Piece(body, Material("plastic", tint, rng.uniform(0.08, 0.2))),
        Piece(lathe(cap, 24, 24, 0.03), plastic(rng)),
        Piece(label, _print(rng)),
    ]


def can(rng: Rng) -> list[Piece]:
    """A drink can with a necked top, a rim and a tab."""
    r, height = rng.uniform(0.029, 0.034), rng.uniform(0.095, 0.14)
    print_ = [(r * 0.8, 0.006), (r, 0.012), (r, height - 0.014), (r * 0.83, height - 0.002)]
    shell = lathe([(0, 0.006), *print_], 40)
    foot = [(0, 0.004), (r * 0.72, 0.0), (r * 0.78, 0.0), (r * 0.82, 0.007), (0, 0.008)]
    rim = [(0, height - 0.004), (r * 0.76, height - 0.004), (r * 0.77, height + 0.002)]
    rim += [(r * 0.83, height + 0.002), (r * 0.84, height - 0.003), (0, height - 0.006)]
    tab = moved(plate(stroke([(-0.002, 0, 0.006), (0.011, 0, 0.0075)]), 0.0014), z=height - 0.002)
    metal = steel(rng)
    return [
        Piece(shell, _print(rng, metallic=True)),
        Piece(lathe(foot, 40), metal),
        Piece(lathe(rim, 40), metal),
        Piece(tab, steel(rng)),
    ]


def funnel(rng: Rng) -> list[Piece]:
    """A cone that ends in a spout, standing on its rim."""
    r, height = rng.uniform(0.045, 0.06), rng.uniform(0.09, 0.12)
    waist, end, wall = rng.uniform(0.008, 0.01), rng.uniform(0.0045, 0.006), 0.0016
    knee = height * rng.uniform(0.48, 0.58)
    outer = [(r, 0), (r * 1.02, 0.004), (r * 0.98, 0.012), (waist, knee), (end, height)]
    inner = [
        (end - wall, height),
        (waist - wall, knee),
        (r * 0.98 - 2 * wall, 0.012),
        (r - 0.003, 0),
    ]
    ear = turned(plate(stroke([(r, 0, 0.008), (r + 0.012, 0, 0.009)]), 0.003), "z", 0)
    skin = plastic(rng)
    return [Piece(lathe([*outer, *inner, outer[0]], 40), skin), Piece(moved(ear, z=0.003), skin)]


def light_bulb(rng: Rng) -> list[Piece]:
    """A frosted globe on a threaded metal base."""
    r, height = rng.uniform(0.027, 0.033), rng.uniform(0.1, 0.115)
    centre = height - r
    globe = curve([(0.0125, 0.03), (0.015, 0.042), (r * 0.85, centre - 0.5 * r), (r, centre)], 14)
    crown = [(r * np.cos(a), centre + r * np.sin(a)) for a in np.linspace(0.15, np.pi / 2, 10)]
    thread = [(0.0125 + 0.0011 * (i % 2), 0.008 + 0.0022 * i) for i in range(11)]
    base = [(0, 0.0065), (0.008, 0.0065), *thread, (0.0125, 0.033), (0, 0.033)]
    tip = lathe([(0, 0), (0.0035, 0), (0.0065, 0.0045), (0.0085, 0.008), (0, 0.008)], 20)
    tone = pick(rng, (0.93, 0.93, 0.9), (0.95, 0.9, 0.75))
    return [
        Piece(lathe([(0, 0.03), *globe, *crown], 36), Material("plastic", tone, 0.15)),
        Piece(lathe(base, 28), steel(rng)),
        Piece(tip, plastic(rng, (0.08, 0.08, 0.08))),
    ]


def _print(rng: Rng, metallic: bool = False) -> Material:
    """A printed label: two or three colours in bands."""
    colours = [hue(rng, (0.3, 1.0), (0.35, 0.95)) for _ in range(2)]
    colours += [near(rng, (0.92, 0.92, 0.9))]
    order = [colours[i] for i in rng.choice([0, 0, 1, 2], size=6)]
    picture = np.ascontiguousarray(stripes(order, 120))
    roughness = 0.25 if metallic else 0.5
    return Material(
        "plastic", roughness=roughness, texture=Texture(picture, rng.uniform(0.08, 0.16))
    )
