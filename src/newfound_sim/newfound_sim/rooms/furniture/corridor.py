# SPDX-License-Identifier: Apache-2.0
"""What stands and hangs in corridors."""

from __future__ import annotations

from newfound_sim.rooms import pictures
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.pieces import Piece
from newfound_sim.rooms.shapes import box, cushion, cylinder, picture, revolve, rod, rods
from newfound_sim.rooms.surfaces import mirror, paint


def notice_board(shop: Workshop) -> Piece:
    """A board with pinned papers."""
    w, h = shop.between(1.1, 1.8), shop.between(0.8, 1.1)
    ground = shop.pick(((176, 130, 84), (60, 90, 120), (70, 110, 80)))
    image = pictures.notice_board(shop.rng, ground, int(shop.rng.integers(6, 16)))
    parts = [box(shop.pick((shop.wood, shop.metal)), (0, 0.012, 0), (w, 0.024, h))]
    parts.append(picture(image, (0, 0.025, 0.03), (w - 0.06, h - 0.06)))
    return Piece("notice_board", parts)


def poster(shop: Workshop) -> Piece:
    """A printed poster."""
    parts = [box(shop.white, (0, 0.004, 0), (0.7, 0.008, 1.0))]
    parts.append(picture(pictures.poster(shop.rng), (0, 0.009, 0), (0.7, 1.0)))
    return Piece("poster", parts)


def fire_extinguisher(shop: Workshop) -> Piece:
    """A red bottle on its bracket, with hose and sign."""
    red = paint((0.75, 0.05, 0.05), 0.25)
    bottle = [(0.085, 0), (0.09, 0.05), (0.09, 0.4), (0.05, 0.47), (0.02, 0.49), (0.02, 0.54)]
    parts = [revolve(red, (0, 0.11, 0), bottle)]
    parts.append(box(shop.dark, (0.03, 0.11, 0.53), (0.12, 0.03, 0.03)))
    hose = [(0.05, 0.11, 0.52), (0.11, 0.13, 0.4), (0.11, 0.14, 0.15)]
    parts += rods(shop.dark, [(x, y, z) for x, y, z in hose], 0.012)
    parts.append(box(shop.white, (0, 0.2, 0.18), (0.1, 0.006, 0.14)))
    parts.append(box(red, (0, 0.004, 0.85), (0.2, 0.008, 0.2)))
    return Piece("fire_extinguisher", parts)


def bench(shop: Workshop) -> Piece:
    """A bench for those who wait."""
    w = shop.between(1.1, 1.6)
    parts = [part.moved(0, 0.22) for part in shop.legs(w, 0.4, 0.42)]
    for y in (0.1, 0.22, 0.34):
        parts.append(box(shop.wood, (0, y, 0.42), (w, 0.1, 0.035)))
    return Piece("bench", parts)


def coat_rack(shop: Workshop) -> Piece:
    """Hooks with coats."""
    w = shop.between(0.8, 1.2)
    parts = [box(shop.wood, (0, 0.012, 0.95), (w, 0.024, 0.12))]
    hooks = int(w / 0.16)
    for hook in range(hooks):
        x = -w / 2 + (hook + 0.5) * w / hooks
        parts.append(rod(shop.metal, (x, 0.02, 1.0), (x, 0.07, 1.03), 0.008))
        if shop.chance(0.35 + 0.5 * shop.style.clutter):
            drop = shop.between(0.6, 0.95)
            parts.append(cushion(shop.accent(), (x, 0.085, 1.0 - drop), (0.14, 0.12, drop), 0.05))
    return Piece("coats", parts)


def console_table(shop: Workshop) -> Piece:
    """A narrow table with a vase."""
    w = shop.between(0.8, 1.1)
    parts = [part.moved(0, 0.16) for part in shop.legs(w, 0.3, 0.78)]
    parts.append(box(shop.wood, (0, 0.16, 0.78), (w, 0.32, 0.03)))
    parts += shop.small_thing((-0.2, 0.16, 0.81)) + shop.small_thing((0.2, 0.16, 0.81))
    return Piece("console_table", parts)


def hall_mirror(shop: Workshop) -> Piece:
    """A mirror in a frame."""
    parts = [box(shop.wood, (0, 0.012, 0), (0.55, 0.024, 0.9))]
    parts.append(box(mirror(), (0, 0.026, 0.04), (0.47, 0.004, 0.82)))
    return Piece("mirror", parts)


def lockers(shop: Workshop) -> Piece:
    """Steel lockers in a row."""
    columns = int(shop.rng.integers(3, 6))
    finish = shop.pick((shop.style.appliances, shop.accent(0.4)))
    size = (0.32 * columns, 0.42, 1.8)
    return Piece("lockers", shop.cabinet(finish, size, [("door", "door")] * columns, plinth=0.06))


def exit_sign(shop: Workshop) -> Piece:
    """A green exit sign."""
    parts = [box(shop.white, (0, 0.02, 0), (0.36, 0.04, 0.18))]
    parts.append(picture(pictures.emergency_sign(), (0, 0.041, 0), (0.36, 0.18)))
    return Piece("exit_sign", parts)


def water_cooler(shop: Workshop) -> Piece:
    """A water dispenser with its bottle."""
    blue = paint((0.45, 0.65, 0.85), 0.1)
    parts = [cushion(shop.white, (0, 0.18, 0), (0.32, 0.32, 0.95), 0.02)]
    parts.append(box(shop.dark, (0, 0.342, 0.62), (0.22, 0.006, 0.2)))
    parts.append(cylinder(blue, (0, 0.18, 0.95), 0.13, 0.36))
    return Piece("water_cooler", parts)
