# SPDX-License-Identifier: Apache-2.0
"""What a label provider and an image provider have to offer."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from newfound_web.image_folder import Origin
from newfound_web.pictures import Picture


@dataclass(frozen=True)
class Candidate:
    """A proposal of what the crop shows."""

    label: str
    confidence: float  # 0 to 1; comparable within one provider only
    provider: str


@dataclass(frozen=True)
class Offer:
    """An image that can be had; `load` gets its bytes, which nobody has looked at yet."""

    origin: Origin
    load: Callable[[], Awaitable[bytes]]


class LabelProvider(Protocol):
    """Says what things are called. Raises ProviderError if it cannot answer."""

    name: str

    async def candidates(self, crop: Picture, count: int) -> Sequence[Candidate]:
        """At most so many proposals, best first; none is an answer, too."""


class ImageProvider(Protocol):
    """Finds images of a label. Raises ProviderError if it cannot answer."""

    name: str

    async def offers(self, label: str, count: int) -> Sequence[Offer]:
        """About so many offers, best first; none is an answer, too."""
