# SPDX-License-Identifier: Apache-2.0
"""Screwdrivers: they lie along x with the tip at +x."""

import numpy as np
from trimesh import Trimesh

from newfound_sim.meshes import along_x, curve, cut, lathe, loft, moved, plate, turned
from newfound_sim.meshes import stroke as outline
from newfound_sim.objects.palette import Piece, Rng, hue, pick, plastic, rubber, steel


def flat_screwdriver(rng: Rng) -> list[Piece]:
    """A long blade with a flared flat tip and a fluted handle."""
    grip, blade = rng.uniform(0.085, 0.11), rng.uniform(0.09, 0.15)
    r, shaft = rng.uniform(0.0135, 0.0175), rng.uniform(0.0028, 0.0038)
    return [*_handle(rng, grip, r), Piece(_flat_blade(grip, blade, shaft), steel(rng))]


def stubby_screwdriver(rng: Rng) -> list[Piece]:
    """A fat, short handle with hardly any blade, cross-shaped at its tip."""
    grip, blade = rng.uniform(0.052, 0.064), rng.uniform(0.026, 0.036)
    r, shaft = rng.uniform(0.0165, 0.020), rng.uniform(0.0032, 0.0042)
    return [*_handle(rng, grip, r), Piece(_cross_blade(grip, blade, shaft), steel(rng))]


def precision_screwdriver(rng: Rng) -> list[Piece]:
    """Thin as a pencil, with a swivel cap at its end."""
    grip, blade = rng.uniform(0.075, 0.09), rng.uniform(0.045, 0.065)
    r = rng.uniform(0.0042, 0.0055)
    cap = lathe(
        [
            (0, 0),
            (r * 1.05, 0),
            (r * 1.5, 0.002),
            (r * 1.5, 0.005),
            (r * 0.6, 0.0085),
            (r * 0.6, 0.013),
        ],
        20,
    )
    ridges = [(r * (1 - 0.12 * (i % 2)), 0.012 + 0.0016 * i) for i in range(14)]
    body = [(0, 0.012), *ridges, (r, 0.036), (r, grip - 0.016)]
    body += [(r * 0.8, grip - 0.014), (r * 0.8, grip - 0.008), (r * 0.45, grip), (0, grip)]
    metal = steel(rng)
    main = metal if rng.random() < 0.5 else plastic(rng)
    end = plastic(rng) if rng.random() < 0.6 else metal
    blade_mesh = _flat_blade(grip - 0.004, blade, rng.uniform(0.0013, 0.0018))
    return [
        Piece(along_x(cap), end),
        Piece(along_x(lathe(body, 20)), main),
        Piece(blade_mesh, steel(rng)),
    ]


def _handle(rng: Rng, length: float, r: float) -> list[Piece]:
    """A fluted grip with a waist before the blade; often of two colours."""
    lobes = int(rng.choice([5, 6, 8]))
    depth = rng.uniform(0.05, 0.11)
    body = [(0, 0), (0.6 * r, 0), (0.93 * r, 0.06 * length), (r, 0.2 * length)]
    body += [(r, 0.55 * length), (0.82 * r, 0.74 * length), (0.68 * r, 0.82 * length)]
    profile = np.vstack([body[:1], curve(body[1:], 14), [(0, 0.82 * length)]])
    collar = [(0, 0.8 * length), (0.66 * r, 0.8 * length), (0.8 * r, 0.9 * length)]
    collar += [(0.62 * r, 0.98 * length), (0.3 * r, length), (0, length)]
    main = plastic(rng, hue(rng, (0.75, 1.0), (0.5, 0.95)))
    end = rubber(rng) if rng.random() < 0.5 else plastic(rng, pick(rng, (0.9, 0.9, 0.88)))
    if rng.random() < 0.25:
        end = main
    return [
        Piece(along_x(lathe(profile, 48, lobes, depth)), main),
        Piece(along_x(lathe(collar, 24)), end),
    ]


def _flat_blade(start: float, length: float, r: float) -> Trimesh:
    """Round, then wide and thin, then a straight edge."""
    stations = [(0, r, r), (length * 0.82, r, r), (length * 0.9, 1.75 * r, 0.75 * r)]
    stations += [(length * 0.97, 1.6 * r, 0.35 * r), (length, 1.6 * r, 0.22 * r)]
    angle = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    rings = [
        np.stack([0 * angle + start + x, wide * np.cos(angle), thin * np.sin(angle)], axis=1)
        for x, wide, thin in stations
    ]
    return loft(np.array(rings))


def _cross_blade(start: float, length: float, r: float) -> Trimesh:
    """Round, with four grooves in a pointed end."""
    profile = [(0, 0), (r, 0), (r, length - 2.2 * r), (r * 0.35, length), (0, length)]
    blade = lathe(profile, 20)
    groove = plate(outline([(r * 1.05, 0, r * 0.4), (r * 2, 0, r * 0.4)]), 5 * r)
    tools = [moved(turned(groove, "z", 45 + 90 * i), z=length) for i in range(4)]
    return moved(along_x(cut(blade, *tools)), x=start)
