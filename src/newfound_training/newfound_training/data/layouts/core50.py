# SPDX-License-Identifier: Apache-2.0
"""CORe50: `core50_128x128/s<session>/o<object>/C_<session>_<object>_<frame>.png`.

Fifty objects of ten categories, five of each in order, in eleven sessions, which are the domains.
The class is the object (`o07`) and the group its video in a session; or, as in the thesis, the
class is the category and the group the object, so that all its videos stay together.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from newfound_core.errors import DataError
from newfound_training.data.files import image_files, subfolders
from newfound_training.data.images import Listed

CATEGORIES = (
    "plug_adapter",
    "mobile_phone",
    "scissor",
    "light_bulb",
    "can",
    "glass",
    "ball",
    "marker",
    "cup",
    "remote_control",
)
PACKINGS = ("core50_128x128", "core50_350x350")
_SESSION, _OBJECT = re.compile(r"s(\d{1,2})$"), re.compile(r"o(\d{1,2})$")


def list_core50(root: Path) -> Iterator[Listed]:
    """All frames; session and object are numbered with two digits, so that they sort."""
    below = next((root / name for name in PACKINGS if (root / name).is_dir()), root)
    sessions = [(folder, m) for folder in subfolders(below) if (m := _SESSION.match(folder.name))]
    if not sessions:
        raise DataError(f"{below} has no sessions s1 to s11: expected {PACKINGS[0]}/s1/o1/*.png")
    for folder, session in sessions:
        for thing in subfolders(folder):
            match = _OBJECT.match(thing.name)
            if match is None or not 1 <= int(match[1]) <= 50:
                raise DataError(f"{thing} is not an object o1 to o50")
            domain = f"s{int(session[1]):02d}"
            label = f"o{int(match[1]):02d}"
            for file in image_files(thing, root):
                yield Listed(file, label, domain, f"{domain}/{label}")


def list_core50_categories(root: Path) -> Iterator[Listed]:
    """The same frames by category."""
    for frame in list_core50(root):
        yield frame._replace(label=category(frame.label), group=frame.label)


def category(label: str) -> str:
    """The category of an object: `o07` is a mobile phone."""
    return CATEGORIES[(int(label[1:]) - 1) // 5]
