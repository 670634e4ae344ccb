# SPDX-License-Identifier: Apache-2.0
"""What keeps adaptation from following the wrong thing: redundancy filter and anchor."""

from collections import deque

from torch import Tensor
from torch.nn import functional

from newfound_core.onda.config import OndaConfig
from newfound_core.onda.drift import Drift

THUMBNAIL = 8  # pixels a side
RECENT_FRAMES = 50  # over which the entropy of the predictions is averaged


class RedundancyFilter:
    """Recognises frames that look like the last one that counted.

    Compared with that one and not with the previous frame, so slow movement counts in time.
    """

    def __init__(self) -> None:
        self._last: Tensor | None = None

    def is_redundant(self, frame: Tensor, threshold: float) -> bool:
        """Whether the frame adds nothing; if not, it is what later ones are compared with."""
        thumbnail = functional.adaptive_avg_pool2d(frame, THUMBNAIL) if frame.dim() == 4 else frame
        last = self._last
        if last is not None and last.shape == thumbnail.shape:
            difference = float((thumbnail - last).abs().mean())
            if difference < threshold:
                return True
        self._last = thumbnail.detach().clone()
        return False

    def clear(self) -> None:
        """Forget the last frame."""
        self._last = None


class Anchor:
    """Says when adaptation is lost, so that the source must be restored."""

    def __init__(self) -> None:
        self._entropies: deque[float] = deque(maxlen=RECENT_FRAMES)

    def note(self, entropy: float) -> None:
        """Remember the entropy (0 to 1) of a prediction."""
        self._entropies.append(entropy)

    def complaint(self, drift: Drift, config: OndaConfig) -> str | None:
        """Why the source must be restored, or None while all is well."""
        if drift.mean > config.anchor_max_drift:
            return f"drift {drift.mean:.2f} above {config.anchor_max_drift:g}"
        low, high = config.anchor_entropy_band
        if len(self._entropies) == RECENT_FRAMES:
            entropy = sum(self._entropies) / RECENT_FRAMES
            if not low <= entropy <= high:
                return f"mean prediction entropy {entropy:.3f} outside [{low:g}, {high:g}]"
        return None

    def clear(self) -> None:
        """Forget the predictions."""
        self._entropies.clear()
