# SPDX-License-Identifier: Apache-2.0
"""The rooms' commands: `generate rooms` and contact sheets."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from newfound_sim.contact_sheet import sheet_of_folder
from newfound_sim.production import write_jpeg
from newfound_sim.rooms.dataset import DOMAINS, RoomRequest, find_rooms, generate_rooms
from newfound_sim.rooms.images import SAMPLES
from newfound_sim.rooms.names import CATEGORIES


def add_commands(generate: Any, sheet: Any) -> None:
    """Declare the commands."""
    rooms = generate.add_parser("rooms", help="<building>_<lighting>/<category>/*.jpg: places")
    add = rooms.add_argument
    add("--out", type=Path, required=True, help="folder; if it exists, what is missing is added")
    add("--domains", nargs="+", default=["all"], help="names as loft_night, buildings, or all")
    add("--classes", nargs="+", default=["all"], help="place categories, or all")
    add("--images", type=int, default=30, help="per category and domain (default: %(default)s)")
    add("--views", type=int, default=3, help="pictures of each room (default: %(default)s)")
    add("--size", type=int, default=128, help="pixels (default: %(default)s)")
    add("--samples", type=int, default=SAMPLES, help="per pixel (default: %(default)s)")
    add("--seed", type=int, default=0, help="another seed shows other rooms")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    rooms.set_defaults(run=_rooms)
    for name, text in (
        ("rooms", "rooms by building and category"),
        ("lightings", "rooms in three lightings"),
        ("walk", "a walk through a building"),
    ):
        command = sheet.add_parser(name, help=text)
        command.add_argument("--out", type=Path, required=True, help="the JPEG to write")
        command.set_defaults(run=_sheet, sheet=name)


def _rooms(arguments: argparse.Namespace) -> None:
    request = RoomRequest(
        domains=find_rooms(arguments.domains, tuple(DOMAINS), "domain"),
        classes=find_rooms(arguments.classes, CATEGORIES, "category"),
        images=arguments.images,
        views=arguments.views,
        size=arguments.size,
        samples=arguments.samples,
        seed=arguments.seed,
    )
    made = generate_rooms(arguments.out, request, arguments.workers)
    print(f"{made} images written to {arguments.out}; see {sheet_of_folder(arguments.out)}")


def _sheet(arguments: argparse.Namespace) -> None:
    from newfound_sim.rooms import sheets

    draw: dict[str, Callable[[], np.ndarray]] = {
        "rooms": sheets.rooms_sheet,
        "lightings": sheets.lightings_sheet,
        "walk": sheets.walk_sheet,
    }
    write_jpeg(arguments.out, draw[arguments.sheet](), quality=85)
