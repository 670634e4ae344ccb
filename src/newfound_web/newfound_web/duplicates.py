# SPDX-License-Identifier: Apache-2.0
"""The same picture twice: at another size, saved again, a little brighter."""

import cv2
import numpy as np

SAME_WITHIN = 4  # of 64 bits


def difference_hash(rgb: np.ndarray) -> int:
    """64 bits: for each cell of an 8 x 8 grid, whether it gets brighter to the right."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    cells = cv2.resize(grey, (9, 8), interpolation=cv2.INTER_AREA).astype(np.int16)
    bits = np.packbits(cells[:, 1:] > cells[:, :-1])
    return int.from_bytes(bits.tobytes(), "big")


class SeenPictures:
    """Remembers pictures by their hash, and recognises near-duplicates."""

    def __init__(self, same_within: int = SAME_WITHIN) -> None:
        self._same_within = same_within
        self._hashes: list[int] = []

    def add(self, picture_hash: int) -> bool:
        """Remember it; False if one like it was there already."""
        for known in self._hashes:
            if (known ^ picture_hash).bit_count() <= self._same_within:
                return False
        self._hashes.append(picture_hash)
        return True
