# SPDX-License-Identifier: Apache-2.0
"""The workbench's commands: crops, detection sets and contact sheets."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from newfound_sim.contact_sheet import sheet_of_folder
from newfound_sim.dataset_request import CropRequest, DetectionRequest, find_classes
from newfound_sim.production import write_jpeg
from newfound_sim.workbench import find_domains


def add_commands(generate: Any, sheet: Any) -> None:
    """Declare the commands."""
    crops = generate.add_parser(
        "workbench", help="<domain>/<class>/*.jpg: single objects that fill the picture"
    )
    _add_common(crops, images=20, samples=8)
    crops.add_argument("--size", type=int, default=128, help="pixels (default: %(default)s)")
    crops.set_defaults(run=_crops)

    scenes = generate.add_parser(
        "detection", help="<domain>/images/*.jpg and annotations.json (COCO, boxes and masks)"
    )
    _add_common(scenes, images=100, samples=12)
    scenes.add_argument("--width", type=int, default=320)
    scenes.add_argument("--height", type=int, default=240)
    scenes.add_argument("--most-objects", type=int, default=6)
    scenes.add_argument("--fewest-objects", type=int, default=1)
    scenes.set_defaults(run=_detection)

    for name, text in (
        ("classes", "all object classes"),
        ("domains", "the twelve domains"),
        ("drift", "light that drifts"),
    ):
        command = sheet.add_parser(name, help=text)
        command.add_argument("--out", type=Path, required=True, help="the JPEG to write")
        command.set_defaults(run=_sheet, sheet=name)


def _add_common(parser: argparse.ArgumentParser, images: int, samples: int) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder; if it exists, what is missing is added")
    add("--domains", nargs="+", default=["all"], help="names as artificial_kinect_white")
    add("--classes", nargs="+", default=["all"], help="names, or all, or tools")
    add("--images", type=int, default=images, help="per class and domain (detection: per domain)")
    add("--samples", type=int, default=samples, help="per pixel (default: %(default)s)")
    add("--seed", type=int, default=0, help="another seed shows other instances")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")


def _chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "domains": tuple(domain.name for domain in find_domains(arguments.domains)),
        "classes": tuple(find_classes(arguments.classes)),
        "images": arguments.images,
        "samples": arguments.samples,
        "seed": arguments.seed,
    }


def _crops(arguments: argparse.Namespace) -> None:
    from newfound_sim.generate import generate_crops

    request = CropRequest(**_chosen(arguments), size=arguments.size)
    made = generate_crops(arguments.out, request, arguments.workers)
    print(f"{made} images written to {arguments.out}; see {sheet_of_folder(arguments.out)}")


def _detection(arguments: argparse.Namespace) -> None:
    from newfound_sim.generate import generate_detection

    names = ("width", "height", "most_objects", "fewest_objects")
    further = {name: getattr(arguments, name) for name in names}
    request = DetectionRequest(**_chosen(arguments), **further)
    made = generate_detection(arguments.out, request, arguments.workers)
    print(f"{made} images written to {arguments.out}; see {sheet_of_folder(arguments.out)}")


def _sheet(arguments: argparse.Namespace) -> None:
    from newfound_sim import sheets

    draw: dict[str, Callable[[], np.ndarray]] = {
        "classes": sheets.classes_sheet,
        "domains": sheets.domains_sheet,
        "drift": sheets.drift_sheet,
    }
    write_jpeg(arguments.out, draw[arguments.sheet](), quality=85)
