# SPDX-License-Identifier: Apache-2.0
"""Image trees: `<domain>/<class>/…` and `<split>/<class>/…`, the simulator's output included."""

from collections.abc import Iterator
from pathlib import Path

from newfound_core.errors import DataError
from newfound_training.data.files import image_files, subfolders
from newfound_training.data.images import Listed, refuse_names_that_differ_in_case


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
