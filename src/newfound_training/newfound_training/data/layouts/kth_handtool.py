# SPDX-License-Identifier: Apache-2.0
"""KTH Handtool: nine hand tools under 3 lights, 2 cameras and 2 backgrounds.

The levels of the tree are recognised by their names, in any order and with any separators, for
example `artificial/kinect/white/hammer1/0001.jpg` or `Artificial_Kinect_White/hammer1/…`. The
domain is `<light>-<camera>-<background>`, the class the tool's folder (`hammer1`).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from newfound_core.errors import DataError
from newfound_training.data.files import image_files, subfolders
from newfound_training.data.images import Listed

CONDITIONS = {
    "light": ("artificial", "cloudy", "directed"),
    "camera": ("kinect", "webcam"),
    "background": ("white", "brown"),
}
_TOOL = re.compile(r"(hammer|plier|screwdriver)s?[ _-]*(\d+)", re.IGNORECASE)


def list_kth_handtool(root: Path) -> Iterator[Listed]:
    """Every image whose folders name a light, a camera, a background and a tool."""
    subfolders(root)  # a clear error if there is no such folder
    for file in image_files(root, root):
        folders = "/".join(file.path.relative_to(root).parts[:-1])
        yield Listed(file, _tool(folders, file.path), _domain(folders, file.path))


def _domain(folders: str, path: Path) -> str:
    found = []
    for kind, names in CONDITIONS.items():
        here = [name for name in names if name in folders.lower()]
        if len(here) != 1:
            raise DataError(
                f"the folders of {path} name {len(here)} conditions of {kind}; expected exactly "
                f"one of {', '.join(names)}, as in artificial/kinect/white/hammer1/"
            )
        found += here
    return "-".join(found)


def _tool(folders: str, path: Path) -> str:
    match = _TOOL.search(folders)
    if match is None:
        raise DataError(f"the folders of {path} name no tool such as hammer1 or screwdriver3")
    return f"{match[1].lower()}{int(match[2])}"
