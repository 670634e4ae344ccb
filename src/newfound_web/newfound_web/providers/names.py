# SPDX-License-Identifier: Apache-2.0
"""Label provider `names`: names from a vocabulary, by word vectors, offline (docs/naming.md)."""

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from newfound_web.errors import NoIdeaError
from newfound_web.pictures import Picture
from newfound_web.providers.base import Candidate


class Name(Protocol):
    """A name with its probability, and the share of it that the seen classes tell."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def confidence(self) -> float: ...  # noqa: D102

    @property
    def span_share(self) -> float: ...  # noqa: D102


class Namer(Protocol):
    """Ranks names for views of one object: `vision.Namer`."""

    def __call__(  # noqa: D102
        self, views: Sequence[np.ndarray], count: int, exclude: Collection[str]
    ) -> Sequence[Name]: ...


class Names:
    """Names for what no classifier was trained on; says "no idea" rather than a bad name."""

    name = "names"
    min_confidence = 0.0  # has a limit of its own

    def __init__(self, namer: Namer, limit: float) -> None:
        self._namer = namer
        self._limit = limit

    async def candidates(self, crop: Picture, count: int) -> Sequence[Candidate]:
        """The most probable names for one view."""
        return await self.candidates_of_views([crop], count, ())

    async def candidates_of_views(
        self, views: Sequence[Picture], count: int, exclude: Collection[str]
    ) -> Sequence[Candidate]:
        """The most probable names; the views vote."""
        rgb = [view.rgb for view in views]
        found = await asyncio.to_thread(self._namer, rgb, count, exclude)
        if not found:
            raise NoIdeaError("no idea")
        best = found[0]
        if best.confidence < self._limit:
            raise NoIdeaError(f"no idea; the best name, {best.name}, has {best.confidence:.0%}")
        return [Candidate(n.name, n.confidence, self.name, n.span_share) for n in found]


def load_namer(checkpoint: Path, vocabulary: Path | None, min_span: float) -> Namer:
    """Load the model; `vocabulary` is a file of names, else the checkpoint's are used."""
    from newfound_web.vision import Namer as VisionNamer  # imports torch

    return VisionNamer(checkpoint, vocabulary, min_span)
