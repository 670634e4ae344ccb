# SPDX-License-Identifier: Apache-2.0
"""From the crops of a frame to features of the network: as it is, adapted, or by a back end."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from newfound_core.detection.crops import crop_features
from newfound_core.models import LoadedModel


class Embedder(Protocol):
    """What the detector computes features with; the seam for adaptation and back ends."""

    def __call__(self, crops: Sequence[np.ndarray]) -> Tensor:
        """The network's features [N, D] of the crops of one frame, uint8 [h, w, 3] each."""
        ...

    def stored(self, crops: Sequence[np.ndarray]) -> Tensor:
        """The same for stored views, from which nothing is learned."""
        ...


class PlainEmbedder:
    """The network as it is, by PyTorch."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded

    def __call__(self, crops: Sequence[np.ndarray]) -> Tensor:
        """Features of the crops of one frame."""
        return crop_features(self._loaded, crops)

    stored = __call__
