# SPDX-License-Identifier: Apache-2.0
"""The layouts in which data sets are published, each read as it comes.

A layout is a function from the data folder to the images found there. A new one is a module
with that function and a line in `LAYOUTS`.
"""

from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path

from newfound_core.errors import ConfigError
from newfound_training.data.images import ImageSet, Listed
from newfound_training.data.layouts.objects import (
    list_cifar100,
    list_core50,
    list_core50_categories,
    list_kth_handtool,
    list_rgbd_object,
)
from newfound_training.data.layouts.places import list_cold, list_vpc
from newfound_training.data.layouts.trees import list_pacs, list_tree

LAYOUTS: dict[str, Callable[[Path], Iterable[Listed]]] = {
    "tree": list_tree,  # <domain or split>/<class>/…, also what the simulator writes
    "pacs": list_pacs,
    "kth_handtool": list_kth_handtool,
    "cold": list_cold,
    "vpc": list_vpc,
    "core50": list_core50,
    "core50_categories": list_core50_categories,
    "rgbd_object": list_rgbd_object,
    "cifar100": list_cifar100,
}


def open_images(root: str | PathLike[str], layout: str = "tree") -> ImageSet:
    """List the images of a data folder; nothing is decoded yet."""
    if layout not in LAYOUTS:
        raise ConfigError(f"no layout is called {layout!r}; known are {', '.join(LAYOUTS)}")
    root = Path(root)
    return ImageSet.of(root, LAYOUTS[layout](root))
