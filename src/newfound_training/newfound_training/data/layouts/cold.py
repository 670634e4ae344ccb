# SPDX-License-Identifier: Apache-2.0
"""COLD: `<laboratory>/…/<sequence>/{std_cam,omni_cam}/*.jpeg` and `localization/places.lst`.

`places.lst` has a line `<image> <room>` for every image. Rooms are named by category, number
and side (`2PO1-A`); the class is the category. The domain is `<laboratory>_<light>`, read from
the sequence's name (`seq1_cloudy2`); the group is the sequence.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from newfound_core.errors import DataError
from newfound_training.data.files import ImageFile, subfolders
from newfound_training.data.images import Listed

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
