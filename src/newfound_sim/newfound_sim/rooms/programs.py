# SPDX-License-Identifier: Apache-2.0
"""Furnishing programs: which furniture each category of room gets, and where."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from newfound_sim.rooms.furniture import (
    bathroom,
    bedroom,
    common,
    corridor,
    kitchen,
    living,
    office,
)
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.layout import Layout, centred, within_walls
from newfound_sim.rooms.pieces import Piece, Placed
from newfound_sim.rooms.style import Shell

# How much a piece tells a stranger where he is: good views show those that tell most.
TELLING: dict[str, dict[str, float]] = {
    "bathroom": {"toilet": 2.0, "bathtub": 2.0, "shower": 1.5, "washbasin": 1.5, "mirror": 0.5},
    "bedroom": {"bed": 3.0, "night_stand": 1.0, "wardrobe": 1.0, "dresser": 0.5},
    "corridor": {},
    "kitchen": {"kitchen_counter": 3.0, "fridge": 1.0, "table": 1.0, "larder": 0.3},
    "living_room": {
        "sofa": 2.5,
        "television": 1.5,
        "coffee_table": 1.0,
        "armchair": 1.0,
        "fireplace": 0.7,
    },
    "office": {
        "desk": 3.0,
        "binder_shelf": 1.0,
        "whiteboard": 0.8,
        "filing_cabinet": 0.6,
        "printer": 0.5,
        "bookshelf": 0.4,
    },
}


def furnish(category: str, layout: Layout, shell: Shell, shop: Workshop) -> None:
    """Put the furniture of a category into an empty room."""
    programs: dict[str, Callable[[Layout, Shell, Workshop], None]] = {
        "bathroom": _bathroom,
        "bedroom": _bedroom,
        "corridor": _corridor,
        "kitchen": _kitchen,
        "living_room": _living_room,
        "office": _office,
    }
    programs[category](layout, shell, shop)


def _bathroom(layout: Layout, shell: Shell, shop: Workshop) -> None:
    layout.at_wall(bathroom.bath(shop), corner=True)
    sink = layout.at_wall(bathroom.washbasin(shop), clearance=0.5)
    if sink:
        layout.above(sink, bathroom.wall_mirror(shop, 0.8 * sink.piece.width), 1.1)
    seat = layout.at_wall(bathroom.toilet(shop), clearance=0.4)
    if seat:
        roll = bathroom.toilet_roll(shop)
        beside = layout.along(seat) + shop.pick((-1, 1)) * 0.42
        layout.try_at(roll, seat.quarter_turns, beside, 0.7)
    if shop.chance(0.45):
        layout.at_wall(bathroom.washing_machine(shop), clearance=0.3, corner=True)
    if shop.chance(0.3 + 0.4 * shop.style.clutter):
        layout.at_wall(bathroom.cabinet(shop), clearance=0.2)
    layout.on_wall(bathroom.towel_rail(shop), 0.75)
    if sink and shop.chance(0.7):
        _lay(layout, sink, bathroom.bath_mat(shop), 0.7)


def _bedroom(layout: Layout, shell: Shell, shop: Workshop) -> None:
    bed = layout.at_wall(bedroom.bed(shop), (0, 1, 3), clearance=0.3)
    bed = bed or layout.at_wall(bedroom.bed(shop))
    if bed:
        for _ in range(2):
            layout.beside(bed, bedroom.night_stand(shop))
        layout.above(bed, common.framed_picture(shop), 1.35)
        if shop.chance(0.8):
            _lay(layout, bed, common.rug(shop, bed.piece.width + 0.9, 1.5), 0.5)
    layout.at_wall(bedroom.wardrobe(shop), clearance=0.5)
    layout.at_wall(bedroom.dresser(shop), clearance=0.4)
    if shop.chance(0.4):
        layout.at_wall(bedroom.clothes_stand(shop), corner=True)
    _decorate(layout, shop, 2)


def _kitchen(layout: Layout, shell: Shell, shop: Workshop) -> None:
    finish = shop.pick(shop.style.kitchen_fronts)
    tiles = shop.pick(shell.wall_tiles)
    line = None
    for width in (3.6, 3.0, 2.4, 1.8):
        line = line or layout.at_wall(kitchen.counter(shop, width, finish, tiles), clearance=0.8)
    cold = kitchen.fridge(shop)
    _ = (line and layout.beside(line, cold, 0.02)) or layout.at_wall(cold, clearance=0.5)
    if shop.chance(0.6):
        larder = kitchen.tall_cupboard(shop, finish)
        _ = (line and layout.beside(line, larder, 0.02)) or layout.at_wall(larder, clearance=0.4)
    layout.in_the_middle(common.dining_set(shop), 0.3) or layout.at_wall(common.dining_set(shop))
    if shop.chance(0.4):
        layout.at_wall(kitchen.stool(shop))
    layout.at_wall(common.waste_bin(shop))
    layout.on_wall(common.wall_clock(shop), 1.75)
    _decorate(layout, shop, 1)


def _living_room(layout: Layout, shell: Shell, shop: Workshop) -> None:
    couch = layout.at_wall(living.sofa(shop), (0, 1, 3), clearance=1.2)
    couch = couch or layout.at_wall(living.sofa(shop), clearance=1.0)
    if couch:
        layout.kept_free.pop()  # the table belongs there
        carpet = common.rug(shop, couch.piece.width + 0.5, 2.0)
        _lay(layout, couch, carpet, 1.6)
        layout.before(couch, living.coffee_table(shop), 0.35)
        layout.beside(couch, common.floor_lamp(shop))
        layout.above(couch, common.framed_picture(shop), 1.35)
        opposite = ((couch.quarter_turns + 2) % 4,)
        screen = living.television(shop)
        layout.at_wall(screen, opposite, clearance=0.5) or layout.at_wall(screen, clearance=0.5)
    if shop.style.fronts in ("boarded", "panelled"):
        layout.at_wall(living.fireplace(shop), (1, 3, 0), clearance=0.5)
    for _ in range(2):
        layout.at_wall(living.armchair(shop), clearance=0.4)
    layout.at_wall(common.bookshelf(shop), clearance=0.4)
    if shop.chance(0.5):
        layout.at_wall(living.sideboard(shop), clearance=0.4)
    for _ in range(2):
        layout.at_wall(common.plant(shop), corner=True)
    _decorate(layout, shop, 3)


def _office(layout: Layout, shell: Shell, shop: Workshop) -> None:
    desks = 2 if layout.plan.width * layout.plan.depth > 17 else 1
    for _ in range(desks):
        layout.at_wall(office.desk(shop), clearance=0.3)
    for _ in range(2):
        layout.at_wall(office.binder_shelf(shop), clearance=0.5)
    if shop.chance(0.7):
        layout.at_wall(common.bookshelf(shop), clearance=0.4)
    layout.at_wall(office.filing_cabinet(shop), clearance=0.4)
    layout.on_wall(office.whiteboard(shop), 0.95)
    if shop.chance(0.4):
        layout.at_wall(office.printer(shop), clearance=0.4)
    layout.at_wall(common.waste_bin(shop))
    if shop.chance(0.5 * shop.style.clutter + 0.2):
        layout.at_wall(common.box_pile(shop))
    layout.on_wall(corridor.poster(shop), 1.0)
    _decorate(layout, shop, 1)


def _corridor(layout: Layout, shell: Shell, shop: Workshop) -> None:
    public = shop.style.fronts in ("flat", "slab")
    hung = [corridor.notice_board, corridor.poster] if public else [common.framed_picture]
    hung.append(common.framed_picture)
    for _ in range(8):
        piece = shop.pick(hung)(shop)
        layout.on_wall(piece, 1.6 - piece.high[2] / 2, (1, 3))
    layout.on_wall(corridor.fire_extinguisher(shop), 0.75, (1, 3))
    if public:
        layout.on_wall(corridor.fire_extinguisher(shop), 0.75, (1, 3))
        layout.on_wall(corridor.exit_sign(shop), 2.2, (2,))
        standing = [corridor.lockers, corridor.bench, corridor.water_cooler, common.waste_bin]
    else:
        layout.on_wall(corridor.coat_rack(shop), 0.65, (1, 3))
        layout.on_wall(corridor.hall_mirror(shop), 1.0, (1, 3))
        standing = [corridor.console_table, corridor.bench, common.radiator]
    standing.append(common.plant)
    for _ in range(int(1 + 3 * shop.style.clutter + layout.plan.width / 2)):
        layout.at_wall(shop.pick(standing)(shop), (1, 3))
    if not public and shop.chance(0.8):
        runner = common.rug(shop, 0.45 * layout.plan.width, 0.6 * layout.plan.depth)
        layout.add(centred(runner, layout.plan.width / 2, layout.plan.depth / 2, 0))


def _decorate(layout: Layout, shop: Workshop, walls: int) -> None:
    """Pictures, a plant, a radiator under the window: more where clutter is liked."""
    for _ in range(walls + int(2 * shop.style.clutter)):
        layout.on_wall(common.framed_picture(shop), shop.between(1.35, 1.5))
    if shop.style.fronts != "slab":
        layout.at_wall(common.radiator(shop), (2,))
    if shop.chance(0.3 + 0.5 * shop.style.clutter):
        layout.at_wall(common.plant(shop), corner=True)


def _lay(layout: Layout, at: Placed, rug: Piece, reach: float) -> None:
    """Lay a rug so that its far edge is `reach` before the front of a piece, if it fits."""
    middle = at.box[:, :2].mean(axis=0)
    x, y = middle + np.array(at.facing) * (at.piece.depth / 2 + reach - rug.depth / 2)
    placed = centred(rug, float(x), float(y), at.quarter_turns)
    if within_walls(placed, layout.plan):
        layout.add(placed)
