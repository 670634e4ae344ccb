# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m newfound_sim generate | render | sheet …`."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newfound_core.errors import NewfoundError

# The renderer and the data sets are imported by the command that needs them: `--help` is instant.


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a refused request prints one line and returns 2."""
    parser = argparse.ArgumentParser(prog="newfound_sim", description="Simulated data.")
    kinds = parser.add_subparsers(required=True)
    generate = kinds.add_parser("generate", help="write a data set").add_subparsers(required=True)
    _add_workbench(generate)
    _add_detection(generate)
    _add_rooms(generate)
    _add_render(kinds)
    _add_sheets(kinds.add_parser("sheet", help="write a contact sheet"))
    chosen = parser.parse_args(arguments)
    try:
        chosen.run(chosen)
    except NewfoundError as error:
        print(f"newfound_sim: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("newfound_sim: interrupted; run the same command to continue", file=sys.stderr)
        return 130
    return 0


# Declarations ----------------------------------------------------------------------------


def _add_workbench(generate: Any) -> None:
    crops = generate.add_parser(
        "workbench", help="<domain>/<class>/*.jpg: one object per image, filling it"
    )
    _add_data_options(crops, images=20, samples=8)
    _add_workbench_classes(crops)
    crops.add_argument("--size", type=int, default=128, help="pixels (default: %(default)s)")
    crops.set_defaults(run=_generate_crops)


def _add_detection(generate: Any) -> None:
    scenes = generate.add_parser(
        "detection", help="<domain>/images/*.jpg and annotations.json (COCO, boxes and masks)"
    )
    _add_data_options(scenes, images=100, samples=12)
    _add_workbench_classes(scenes)
    scenes.add_argument("--width", type=int, default=320)
    scenes.add_argument("--height", type=int, default=240)
    scenes.add_argument("--most-objects", type=int, default=6)
    scenes.add_argument("--fewest-objects", type=int, default=1)
    scenes.set_defaults(run=_generate_detection)


def _add_rooms(generate: Any) -> None:
    rooms = generate.add_parser("rooms", help="<building>_<lighting>/<category>/*.jpg: places")
    segments = generate.add_parser(
        "segments", help="images/*.jpg, labels/*.png, classes.json: rooms with a class per pixel"
    )
    for parser, run in ((rooms, _generate_rooms), (segments, _generate_segments)):
        _add_room_options(parser)
        parser.set_defaults(run=run)


def _add_room_options(parser: argparse.ArgumentParser) -> None:
    _add_data_options(parser, images=30, samples=8)
    add = parser.add_argument
    add("--domains", nargs="+", default=["all"], help="names as loft_night, buildings, or all")
    add("--classes", nargs="+", default=["all"], help="place categories, or all")
    add("--views", type=int, default=3, help="images of each room (default: %(default)s)")
    add("--size", type=int, default=128, help="pixels (default: %(default)s)")


def _add_data_options(parser: argparse.ArgumentParser, images: int, samples: int) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder; in an existing one, missing images only")
    add("--images", type=int, default=images, help="per class and domain (detection: per domain)")
    add("--samples", type=int, default=samples, help="per pixel (default: %(default)s)")
    add("--seed", type=int, default=0, help="another seed shows other instances or rooms")
    _add_workers(parser)


def _add_workbench_classes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--domains", nargs="+", default=["all"], help="names as artificial_kinect_white, or all")
    add("--classes", nargs="+", default=["all"], help="names, or all, or tools")


def _add_workers(parser: argparse.ArgumentParser) -> None:
    cores = os.cpu_count() or 1
    parser.add_argument(
        "--workers", type=int, default=cores, help="processes (default: all cores)"
    )


def _add_render(kinds: Any) -> None:
    command = kinds.add_parser(
        "render",
        help="render a scenario file into a clip",
        description="Renders a scenario into a folder that sim_camera plays. Interrupted, the "
        "same command continues where it was.",
    )
    add = command.add_argument
    add("scenario", type=Path, help="the YAML file")
    add("--out", type=Path, required=True, help="the clip's folder")
    _add_workers(command)
    add("--takes", type=int, default=4, help="images of a static scene, with different noise")
    add("--quality", type=int, default=90, help="of the JPEG files, 1 to 100")
    add("--no-depth", action="store_true", help="leave depth out")
    command.set_defaults(run=_render)


def _add_sheets(parser: argparse.ArgumentParser) -> None:
    sheets = parser.add_subparsers(required=True)
    for name, text in (
        ("classes", "all object classes"),
        ("domains", "the twelve workbench domains"),
        ("drift", "a workbench under drifting light"),
        ("rooms", "rooms by building and category"),
        ("lightings", "rooms in three lightings"),
        ("walk", "a walk through a building"),
    ):
        sheets.add_parser(name, help=text).set_defaults(run=_write_sheet, sheet=name)
    clip = sheets.add_parser("clip", help="frames of a clip with their ground truth drawn in")
    clip.add_argument("clip", type=Path, help="the clip's folder")
    clip.add_argument("--times", type=float, nargs="+", required=True, help="seconds")
    clip.set_defaults(run=_write_clip_sheet)
    for sheet in sheets.choices.values():
        sheet.add_argument("--out", type=Path, required=True, help="the JPEG to write")


# Commands --------------------------------------------------------------------------------


def _workbench_request(arguments: argparse.Namespace) -> dict[str, Any]:
    from newfound_sim.generate import find_classes
    from newfound_sim.workbench import find_domains

    return {
        "domains": tuple(domain.name for domain in find_domains(arguments.domains)),
        "classes": tuple(find_classes(arguments.classes)),
        "images": arguments.images,
        "samples": arguments.samples,
        "seed": arguments.seed,
    }


def _generate_crops(arguments: argparse.Namespace) -> None:
    from newfound_sim.generate import CropRequest, generate_crops

    request = CropRequest(**_workbench_request(arguments), size=arguments.size)
    _report(generate_crops(arguments.out, request, arguments.workers), arguments.out)


def _generate_detection(arguments: argparse.Namespace) -> None:
    from newfound_sim.generate import DetectionRequest, generate_detection

    names = ("width", "height", "most_objects", "fewest_objects")
    sizes = {name: getattr(arguments, name) for name in names}
    request = DetectionRequest(**_workbench_request(arguments), **sizes)
    _report(generate_detection(arguments.out, request, arguments.workers), arguments.out)


def _room_request(arguments: argparse.Namespace) -> dict[str, Any]:
    from newfound_sim.rooms.dataset import DOMAINS, find_rooms
    from newfound_sim.rooms.names import CATEGORIES

    names = ("images", "views", "size", "samples", "seed")
    return {
        "domains": find_rooms(arguments.domains, tuple(DOMAINS), "domain"),
        "classes": find_rooms(arguments.classes, CATEGORIES, "category"),
        **{name: getattr(arguments, name) for name in names},
    }


def _generate_rooms(arguments: argparse.Namespace) -> None:
    from newfound_sim.rooms.dataset import RoomRequest, generate_rooms

    request = RoomRequest(**_room_request(arguments))
    _report(generate_rooms(arguments.out, request, arguments.workers), arguments.out)


def _generate_segments(arguments: argparse.Namespace) -> None:
    from newfound_sim.rooms.segments import SegmentRequest, generate_segments

    request = SegmentRequest(**_room_request(arguments))
    images = generate_segments(arguments.out, request, arguments.workers)
    print(f"{images} labelled images written to {arguments.out}")


def _report(images: int, out: Path) -> None:
    from newfound_sim.contact_sheets import sheet_of_folder

    print(f"{images} images written to {out}; see {sheet_of_folder(out)}")


def _render(arguments: argparse.Namespace) -> None:
    from newfound_sim.clip_rendering import ClipOptions, render_clip
    from newfound_sim.scenario_file import load_scenario

    options = ClipOptions(arguments.takes, arguments.quality, not arguments.no_depth)
    scenario = load_scenario(arguments.scenario)
    clip = render_clip(scenario, arguments.out, options, arguments.workers)
    images = len({frame.image for frame in clip.frames})
    print(f"{arguments.out}: {len(clip.frames)} frames, {images} images, {clip.rate:g} Hz")


def _write_sheet(arguments: argparse.Namespace) -> None:
    from newfound_sim import contact_sheets
    from newfound_sim.production import write_jpeg

    draw: Callable[[], np.ndarray] = getattr(contact_sheets, f"{arguments.sheet}_sheet")
    write_jpeg(arguments.out, draw(), quality=85)


def _write_clip_sheet(arguments: argparse.Namespace) -> None:
    from newfound_sim.contact_sheets import clip_sheet
    from newfound_sim.production import write_jpeg

    write_jpeg(arguments.out, clip_sheet(arguments.clip, arguments.times), quality=85)


if __name__ == "__main__":
    sys.exit(main())
