# SPDX-License-Identifier: Apache-2.0
"""PACS as published: `kfold/<domain>/<class>/*.jpg`, or `pacs_data/…` in another packing."""

from collections.abc import Iterator
from pathlib import Path

from newfound_training.data.images import Listed
from newfound_training.data.layouts.tree import list_tree

PACKINGS = ("kfold", "pacs_data", "PACS")


def list_pacs(root: Path) -> Iterator[Listed]:
    """The domains photo, art_painting, cartoon and sketch, below the folder of the archive."""
    below = next((root / name for name in PACKINGS if (root / name).is_dir()), root)
    return list_tree(below)
