# SPDX-License-Identifier: Apache-2.0
"""Labels of classes: what is allowed, and when two are the same.

Two labels that differ only in letter case, or in how Unicode composes their characters, would be
one class to a person: labels are stored in normal form C, and compared without case.
"""

import unicodedata
from collections.abc import Iterable

LONGEST = 100


def normalise_label(label: str) -> str:
    """The label in Unicode normal form C, as it is stored."""
    return unicodedata.normalize("NFC", label)


def same_label(one: str, other: str) -> bool:
    """Whether two labels name the same class."""
    return _key(one) == _key(other)


def find_label(label: str, known: Iterable[str]) -> str | None:
    """The known label that names the same class, as it is spelled there; None if none does."""
    return next((other for other in known if same_label(label, other)), None)


def label_problem(label: str) -> str | None:
    """Why this cannot be the label of a class, or None."""
    shown = repr(label[:40] + "…" if len(label) > 40 else label)
    if not label.strip():
        return "the label is empty"
    if len(label) > LONGEST:
        return f"the label has {len(label)} characters, at most {LONGEST} are allowed"
    if not label.isprintable():
        return f"the label {shown} holds characters that cannot be printed"
    if "/" in label or "\\" in label or label.strip(".") == "":
        return f"the label {shown} looks like a path"
    if label != label.strip():
        return f"the label {shown} begins or ends with a space"
    return None


def _key(label: str) -> str:
    # Case folding may leave normal form C; a second pass makes the result comparable.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", label).casefold())
