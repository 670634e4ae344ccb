# SPDX-License-Identifier: Apache-2.0
"""RGB-D Object: `<category>/<category>_<instance>/<…>_<video>_<frame>_crop.png`.

The colour crops of all instances; depth and masks are left out. The class is the category, the
group the instance, so that an evaluation can leave instances out. The data has one domain.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from newfound_core.errors import DataError
from newfound_training.data.files import ImageFile, subfolders
from newfound_training.data.images import Listed

DOMAIN = "rgbd_object"
_INSTANCE = re.compile(r"(\w+)_(\d+)$")


def list_rgbd_object(root: Path) -> Iterator[Listed]:
    """The colour crops, `*_crop.png`."""
    below = root / "rgbd-dataset" if (root / "rgbd-dataset").is_dir() else root
    found = 0
    for folder in subfolders(below):
        for instance in subfolders(folder):
            match = _INSTANCE.match(instance.name)
            if match is None or match[1] != folder.name:
                raise DataError(
                    f"{instance} is not an instance of {folder.name}: expected "
                    f"{folder.name}/{folder.name}_<number>/"
                )
            for path in sorted(instance.glob("*_crop.png")):
                found += 1
                yield Listed(ImageFile(path, root), folder.name, DOMAIN, instance.name)
    if not found:
        raise DataError(f"{below} holds no *_crop.png: expected <category>/<category>_<instance>/")
