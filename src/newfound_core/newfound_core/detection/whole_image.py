# SPDX-License-Identifier: Apache-2.0
"""The proposer of a robot that looks at one thing at a time."""

import numpy as np

from newfound_core.detection.proposals import Proposals


class WholeImage:
    """One box: the image."""

    needs_depth = False
    min_objectness = 0.0

    def propose(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """The whole image, for certain."""
        height, width = rgb.shape[:2]
        return Proposals(np.array([[0, 0, width, height]], np.float32), np.ones(1, np.float32))
