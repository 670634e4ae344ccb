# SPDX-License-Identifier: Apache-2.0
"""A classifier that adapts, and one that does not, through a change of light."""

from dataclasses import dataclass, field

import numpy as np

from newfound_msgs import msg
from scripts.demo.stamps import Stamp, stamp

ADAPTING, FROZEN = CLASSIFIERS = ("adaptive_classifier", "frozen_classifier")
_RIGHT_AFTER = 40  # frames


@dataclass(frozen=True)
class Accuracy:
    """Of one classifier, as shares of frames."""

    before: float  # the change
    right_after: float
    recovered: float  # in the last half of all frames after it


@dataclass
class LitThings:
    """What was shown to the classifiers, and what each of them said."""

    truths: dict[Stamp, msg.GroundTruth] = field(default_factory=dict)
    said: dict[str, dict[Stamp, str]] = field(
        default_factory=lambda: {name: {} for name in CLASSIFIERS}
    )
    ended: bool = False

    def learn_truth(self, message: msg.GroundTruth) -> None:
        """Keep what is true."""
        self.truths[stamp(message)] = message
        self.ended |= message.last

    def hear(self, classifier: str, message: msg.Classification) -> None:
        """Keep what a classifier said."""
        self.said[classifier][stamp(message)] = message.nearest_label

    def right(self, classifier: str) -> np.ndarray:
        """For every frame to which all have answered, in order, whether it was right."""
        return np.array(
            [self.said[classifier][s] == t.objects[0].label for s, t in self._answered()], bool
        )

    def change(self) -> int:
        """How many of these frames were before the change of light."""
        lights = [truth.illumination for _, truth in self._answered()]
        return next((n for n, light in enumerate(lights) if light != lights[0]), len(lights))

    def accuracy(self, classifier: str) -> Accuracy | None:
        """None if there are too few answers to say."""
        right, change = self.right(classifier), self.change()
        after = right[change:]
        if not change or len(after) < 2:
            return None
        shares = (right[:change], after[:_RIGHT_AFTER], after[len(after) // 2 :])
        return Accuracy(*(float(part.mean()) for part in shares))

    def _answered(self) -> list[tuple[Stamp, msg.GroundTruth]]:
        found = [(s, t) for s, t in self.truths.items() if all(s in a for a in self.said.values())]
        return sorted(found, key=lambda pair: pair[1].frame)
