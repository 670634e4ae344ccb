# SPDX-License-Identifier: Apache-2.0
"""`python -m newfound_sim render SCENARIO --out CLIP` and `sheet clip CLIP --out JPEG`."""

import argparse
import os
from pathlib import Path
from typing import Any


def add_commands(kinds: Any, sheet: Any) -> None:
    """Declare the commands."""
    command = kinds.add_parser(
        "render",
        help="film a scenario file",
        description="Films a scenario into a folder that sim_camera plays. Interrupted, the same "
        "command continues where it was.",
    )
    add = command.add_argument
    add("scenario", type=Path, help="the YAML file")
    add("--out", type=Path, required=True, help="the clip's folder")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    add("--takes", type=int, default=4, help="pictures of a moment that lasts, with other noise")
    add("--quality", type=int, default=90, help="of the JPEG files, 1 to 100")
    add("--no-depth", action="store_true", help="leave depth out")
    command.set_defaults(run=_render)

    command = sheet.add_parser("clip", help="frames of a clip with their truth drawn in")
    command.add_argument("clip", type=Path, help="the clip's folder")
    command.add_argument("--times", type=float, nargs="+", required=True, help="seconds")
    command.add_argument("--out", type=Path, required=True, help="the JPEG to write")
    command.set_defaults(run=_sheet)


def _render(arguments: argparse.Namespace) -> None:
    from newfound_sim.film import FilmOptions, film
    from newfound_sim.scenario_file import load_scenario

    options = FilmOptions(arguments.takes, arguments.quality, not arguments.no_depth)
    clip = film(load_scenario(arguments.scenario), arguments.out, options, arguments.workers)
    pictures = len({frame.image for frame in clip.frames})
    print(f"{arguments.out}: {len(clip.frames)} frames, {pictures} pictures, {clip.rate:g} Hz")


def _sheet(arguments: argparse.Namespace) -> None:
    from newfound_sim.clip_sheet import clip_sheet
    from newfound_sim.production import write_jpeg

    write_jpeg(arguments.out, clip_sheet(arguments.clip, arguments.times), quality=85)
