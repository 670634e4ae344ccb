# SPDX-License-Identifier: Apache-2.0
"""VPC: `Home<n>/<floor>/00000001.jpg` and `Home<n>/label.txt`.

`label.txt` has, for every floor, its folder with a slash (`1/`), the number of frames, and lines
`<first frame> <last frame> <category>`. The domain is the home, the group home and floor.
Frames marked `transition` lie between two rooms and are left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from newfound_core.errors import DataError
from newfound_training.data.files import ImageFile, subfolders
from newfound_training.data.images import Listed

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
