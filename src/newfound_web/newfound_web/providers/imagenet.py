# SPDX-License-Identifier: Apache-2.0
"""Labels from the classifier that is built in: a thousand names, no network."""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from newfound_web.pictures import Picture
from newfound_web.providers.contract import Candidate

Namer = Callable[[np.ndarray, int], Sequence[tuple[str, float]]]


class ImageNet:
    """Proposes the most probable of ImageNet's classes."""

    name = "imagenet"

    def __init__(self, namer: Namer) -> None:
        self._namer = namer

    async def candidates(self, crop: Picture, count: int) -> Sequence[Candidate]:
        """The classes of highest probability."""
        names = await asyncio.to_thread(self._namer, crop.rgb, count)
        return [Candidate(label, probability, self.name) for label, probability in names]
