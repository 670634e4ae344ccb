# SPDX-License-Identifier: Apache-2.0
"""Image trees: `<domain>/<class>/…` and `<split>/<class>/…`, the simulator's output included.

PACS is published as `kfold/<domain>/<class>/*.jpg`, or `pacs_data/…` in another packing.
"""

from collections.abc import Iterator
from pathlib import Path

from newfound_core.errors import DataError
from newfound_training.data.images import (
    Listed,
    image_files,
    refuse_names_that_differ_in_case,
    subfolders,
)


def list_tree(root: Path) -> Iterator[Listed]:
    """Every image below `<domain>/<class>`; a class folder may have folders of its own."""
    domains = subfolders(root)
    if not domains:
        raise DataError(f"{root} has no folders: expected <domain>/<class>/<images>")
    refuse_names_that_differ_in_case((d.name for d in domains), f"the domains in {root}")
    for domain in domains:
        yield from _list_domain(domain, root)


def _list_domain(domain: Path, root: Path) -> Iterator[Listed]:
    classes = subfolders(domain)
    if not classes:
        raise DataError(
            f"{domain} has no class folders: expected {root.name}/<domain>/<class>/<images>. If "
            f"{domain.name} is a class, give --data the folder two levels above the images"
        )
    refuse_names_that_differ_in_case((c.name for c in classes), f"the classes in {domain}")
    for folder in classes:
        files = list(image_files(folder, root))
        if not files:
            raise DataError(f"{folder} holds no images: fill it or remove it")
        for file in files:
            yield Listed(file, folder.name, domain.name)


PACKINGS = ("kfold", "pacs_data", "PACS")


def list_pacs(root: Path) -> Iterator[Listed]:
    """The domains photo, art_painting, cartoon and sketch, below the folder of the archive."""
    below = next((root / name for name in PACKINGS if (root / name).is_dir()), root)
    return list_tree(below)
