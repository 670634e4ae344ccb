# SPDX-License-Identifier: Apache-2.0
"""Data sets of places as published: COLD and VPC.

COLD: `<laboratory>/…/<sequence>/{std_cam,omni_cam}/*.jpeg` and `localization/places.lst`, which
has a line `<image> <room>` for every image. Rooms are named by category, number and side
(`2PO1-A`); the class is the category. The domain is `<laboratory>_<light>`, read from the
sequence's name (`seq1_cloudy2`); the group is the sequence.

VPC: `Home<n>/<floor>/00000001.jpg` and `Home<n>/label.txt`, which has, for every floor, its folder
with a slash (`1/`), the number of frames, and lines `<first frame> <last frame> <category>`. The
domain is the home, the group home and floor. Frames marked `transition` lie between two rooms and
are left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from newfound_core.errors import DataError
from newfound_training.data.images import ImageFile, Listed, subfolders

CATEGORIES = {
    "CR": "corridor",
    "TL": "toilet",
    "BA": "toilet",
    "PA": "printer_area",
    "1PO": "one_person_office",
    "2PO": "two_persons_office",
    "ST": "stairs",
    "KT": "kitchen",
    "LO": "large_office",
    "LAB": "laboratory",
    "TR": "terminal_room",
    "RL": "robotics_lab",
    "CNR": "conference_room",
}
_LIGHT = re.compile(r"(cloudy|night|sunny)", re.IGNORECASE)


def list_cold(root: Path, camera: str = "std_cam") -> Iterator[Listed]:
    """The images that `places.lst` of every sequence names, taken by one camera."""
    subfolders(root)  # a clear error if there is no such folder
    lists = sorted(root.rglob("localization/places.lst"))
    if not lists:
        raise DataError(
            f"{root} has no localization/places.lst below it: expected the sequences of COLD, "
            "<laboratory>/<sequence>/localization/places.lst beside std_cam/"
        )
    for places in lists:
        yield from _list_sequence(places, root, camera)


def _list_sequence(places: Path, root: Path, camera: str) -> Iterator[Listed]:
    sequence = places.parent.parent
    names = sequence.relative_to(root).parts
    light = _LIGHT.search("/".join(names))
    if light is None or len(names) < 2:
        raise DataError(
            f"{sequence} must name its laboratory and its light (cloudy, night or sunny), as in "
            "saarbruecken/seq1_cloudy1"
        )
    domain = f"{names[0].lower()}_{light[1].lower()}"
    for number, line in enumerate(places.read_text().splitlines(), 1):
        if not line.strip():
            continue
        image, _, room = line.strip().rpartition(" ")
        if not image:
            raise DataError(f"{places}, line {number}: expected '<image> <room>', got {line!r}")
        file = ImageFile(sequence / camera / image.strip(), root)
        yield Listed(file, category(room), domain, "/".join(names))


def category(room: str) -> str:
    """The category of a room's name: `2PO1-A` is a two persons' office."""
    stem = re.sub(r"\d+$", "", re.sub(r"-[A-Z]$", "", room))
    return CATEGORIES.get(stem, stem.lower())


NO_PLACE = ("transition", "end")
_FLOOR = re.compile(r"(\w+)/$")
_COUNT = re.compile(r"\d+$")
_RANGE = re.compile(r"(-?\d+)\s+(-?\d+)\s+(\w+)$")


def list_vpc(root: Path) -> Iterator[Listed]:
    """The frames of all homes that have a `label.txt`."""
    homes = [folder for folder in subfolders(root) if (folder / "label.txt").is_file()]
    if not homes:
        raise DataError(f"{root} has no <home>/label.txt: expected the homes of VPC side by side")
    for home in homes:
        yield from _list_home(home, root)


def _list_home(home: Path, root: Path) -> Iterator[Listed]:
    floor = ""
    for number, text in enumerate((home / "label.txt").read_text().splitlines(), 1):
        line = text.strip()
        if not line or _COUNT.match(line):
            continue
        if match := _FLOOR.match(line):
            floor = match[1]
        elif match := _RANGE.match(line):
            yield from _frames(home, floor, match, root)
        else:
            raise DataError(
                f"{home / 'label.txt'}, line {number}: expected '<floor>/', a number of frames, "
                f"or '<first> <last> <category>', got {text!r}"
            )


def _frames(home: Path, floor: str, match: re.Match[str], root: Path) -> Iterator[Listed]:
    first, last, place = int(match[1]), int(match[2]), match[3].lower()
    if place in NO_PLACE or first < 0:
        return
    for frame in range(first, last + 1):
        file = ImageFile(home / floor / f"{frame:08d}.jpg", root)
        yield Listed(file, place, home.name, f"{home.name}/{floor}")
