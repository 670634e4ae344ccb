# SPDX-License-Identifier: Apache-2.0
"""What a page may send: texts, numbers and lists of a limited size."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeGuard

Action = Callable[[dict[str, Any]], Awaitable[Any]]
_NODE = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")
MAX_SELECTED = 200  # things that are named or dismissed at once
MAX_OUTLINES = 30  # in one picture
MAX_POINTS = 300  # of one outline
MAX_LABEL = 200  # characters that are passed on; the detector allows fewer


class BadRequestError(Exception):
    """A request that the page would never make."""


def text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text of a request."""
    found = body.get(name, default)
    if not _is_text(found):
        raise BadRequestError(f"{name} is missing, or no text")
    return found


def _is_text(found: Any) -> TypeGuard[str]:
    """Whether ROS can carry it: half a character of UTF-16, which JSON allows, it cannot."""
    if not isinstance(found, str) or len(found) > MAX_LABEL:
        return False
    return not any("\ud800" <= character <= "\udfff" or character == "\0" for character in found)


def node(body: Mapping[str, Any], name: str) -> str:
    """The full name of a node in a request; services are called below it."""
    found = text(body, name)
    if not _NODE.fullmatch(found):
        raise BadRequestError(f"{name} is not the name of a node")
    return found


def whole(body: Mapping[str, Any], name: str) -> int:
    """A number of a request."""
    found = body.get(name)
    if type(found) is not int or not 0 <= found < 2**63:
        raise BadRequestError(f"{name} is missing, or no number")
    return found


def outlines(body: Mapping[str, Any], name: str) -> list[list[tuple[float, float]]]:
    """Polygons of a request: points are shares of width and height."""
    found = body.get(name)
    if not isinstance(found, list) or len(found) > MAX_OUTLINES:
        raise BadRequestError(f"{name} is missing, or no list of at most {MAX_OUTLINES} outlines")
    for outline in found:
        fits = isinstance(outline, list) and 3 <= len(outline) <= MAX_POINTS
        if not (fits and all(map(_is_point, outline))):
            raise BadRequestError(f"an outline is no list of 3 to {MAX_POINTS} points")
    return [[(float(x), float(y)) for x, y in outline] for outline in found]


def _is_point(found: Any) -> bool:
    pair = isinstance(found, list) and len(found) == 2
    return pair and all(type(v) in (int, float) and 0 <= v <= 1 for v in found)


def texts(body: Mapping[str, Any], name: str, most: int = MAX_SELECTED) -> list[str]:
    """A list of texts of a request."""
    found = body.get(name)
    if not isinstance(found, list) or not 0 < len(found) <= most:
        found = [None]
    if not all(map(_is_text, found)):
        raise BadRequestError(f"{name} is missing, or no list of 1 to {most} texts")
    return found
