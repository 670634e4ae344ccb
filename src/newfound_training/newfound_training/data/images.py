# SPDX-License-Identifier: Apache-2.0
"""A set of labelled images, in a fixed order: where each is, its class, its domain."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from newfound_core.errors import DataError


class ImageSource(Protocol):
    """One image, wherever it is kept."""

    @property
    def name(self) -> str:
        """How a person finds it."""

    def read(self) -> np.ndarray:
        """Its pixels, uint8 [H, W, 3] RGB; a DataError if it is damaged."""

    def fingerprint(self) -> str:
        """Changes when the image does; costs no decoding."""


class Listed(NamedTuple):
    """An image as a layout found it."""

    source: ImageSource
    label: str
    domain: str  # or split: whatever the first level of the tree means
    group: str = ""  # object instance or sequence: images that `split` must not separate


@dataclass(frozen=True)
class ImageSet:
    """Images with class and domain, always in the same order on every machine."""

    root: Path
    sources: tuple[ImageSource, ...]
    labels: np.ndarray  # [N] index into class_names
    domains: np.ndarray  # [N] index into domain_names
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    groups: tuple[str, ...] = field(default=())  # [N]

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(cls, root: Path, listed: Iterable[Listed]) -> "ImageSet":
        """Sorted by domain, class and name, so that no file system's order matters."""
        found = sorted(listed, key=lambda i: (i.domain, i.label, i.source.name))
        if not found:
            raise DataError(f"{root} holds no images")
        class_names = tuple(sorted({i.label for i in found}))
        domain_names = tuple(sorted({i.domain for i in found}))
        refuse_names_that_differ_in_case(class_names, f"the classes in {root}")
        class_index = {name: index for index, name in enumerate(class_names)}
        domain_index = {name: index for index, name in enumerate(domain_names)}
        return cls(
            root,
            tuple(i.source for i in found),
            np.array([class_index[i.label] for i in found]),
            np.array([domain_index[i.domain] for i in found]),
            class_names,
            domain_names,
            tuple(i.group for i in found),
        )

    def in_domain(self, name: str) -> "ImageSet":
        """The images of one domain; class indices stay those of the whole set."""
        return self.select(np.flatnonzero(self.domains == self.domain_index(name)))

    def domain_index(self, name: str) -> int:
        """The index of a domain's name."""
        if name not in self.domain_names:
            raise DataError(
                f"{self.root} has no domain {name!r}; it has {', '.join(self.domain_names)}"
            )
        return self.domain_names.index(name)

    def select(self, indices: np.ndarray | Sequence[int]) -> "ImageSet":
        """Some of the images, in the order given."""
        indices = np.asarray(indices, dtype=np.int64)
        return ImageSet(
            self.root,
            tuple(self.sources[i] for i in indices),
            self.labels[indices],
            self.domains[indices],
            self.class_names,
            self.domain_names,
            tuple(self.groups[i] for i in indices),
        )

    def require_every_class(self, domains: Iterable[str]) -> None:
        """A DataError if a class has no image in one of the domains."""
        for name in domains:
            present = np.unique(self.labels[self.domains == self.domain_index(name)])
            missing = [c for i, c in enumerate(self.class_names) if i not in present]
            if missing:
                raise DataError(
                    f"domain {name!r} of {self.root} has no images of {', '.join(missing)}, which "
                    "other domains have: add some, or remove the classes everywhere"
                )


def refuse_names_that_differ_in_case(names: Iterable[str], where: str) -> None:
    """A DataError for names that a person, or another file system, takes for one."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise DataError(
                f"{where} {other!r} and {name!r} differ only in case: rename or merge them"
            )
