# SPDX-License-Identifier: Apache-2.0
"""Whether to adapt at all, judged by what the source network says of some frames.

Needed: a network is less confident outside its domain, by about as much as it is less accurate
(D. Guillory et al., "Predicting with Confidence on Unseen Distributions", ICCV 2021,
arXiv:2107.03315). While the source is as confident as on its own held-out images, its
statistics serve; others could only do harm.

Lost: where the source is certain it is mostly right, also in another domain, and a network that
adapted well agrees with it; one that collapsed does not. Where the source is less confident than
usual, it may be the one that is wrong: then the adapted network must name fewer classes besides.
Neither the drift of the statistics nor the entropy of the predictions tells: collapsed networks
can be more certain than good ones. That all predictions are of one class tells nothing either: a
robot may look at one thing for long. After such an alarm adaptation rests, longer each time, and
is tried again.

At rest the source serves, and watching costs nothing. While the network adapts,
a few frames of every update run through the source too.
"""

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from newfound_core.onda.config import OndaConfig
from newfound_core.onda.statistics import NormalizationLayers, twin_of

CHECKED = 3  # images of an update that the source predicts too
RECENT = 30  # images by which agreement is judged, and at least so many for the need to adapt
WINDOW = 100  # images by which the need is judged: some classes are harder than others
CERTAIN_ENOUGH = 12  # images that the source is certain of, for an alarm
CERTAIN = 0.9  # probability of the source's class
LESS_DIVERSE = 0.8  # times the source's entropy
TRUSTED = 0.05  # confidence that a source may lack and still be right about what it is certain of
LONGEST_HOLD = 16  # times `alarm_hold`


@dataclass(frozen=True)
class Answer:
    """What the source says of one image, and what the adapted network says."""

    label: int
    confidence: float  # probability of that label
    adapted: int

    @property
    def certain(self) -> bool:
        """Whether the source is as good as sure."""
        return self.confidence > CERTAIN


def confidence(network: nn.Module, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Probability and index of the most probable class, [N] each.

    "Unknown", the last logit of a network with a rejection, is none: to be sure of it is not to
    be sure of a class.
    """
    probabilities = logits.float().softmax(-1)
    known = probabilities if getattr(network, "rejection", None) is None else probabilities[:, :-1]
    found = known.max(-1)
    return found.values, found.indices


class Watch:
    """Decides between resting, when the source serves, and adapting."""

    def __init__(self, layers: NormalizationLayers, logits: Callable[[Any], Tensor]) -> None:
        """The network has its source statistics now; the twin keeps them."""
        self._source = twin_of(layers.network)
        self._logits = logits
        # On held-out images of the source; None: not known, so the need cannot be judged.
        self._usual: float | None = getattr(layers.network, "source_confidence", None)
        self._lock = threading.Lock()
        self._watched: list[tuple[Tensor, int]] = []
        self._answers: deque[Answer] = deque(maxlen=WINDOW)
        self._hold, self._held = 1, 0  # the next hold as a multiple, frames left of the present
        self.resting = False

    def restart(self, config: OndaConfig, *, resting: bool = True) -> None:
        """Begin anew; at rest only if the need to adapt can be judged."""
        self.clear()
        self._hold, self._held = 1, 0
        self.resting = resting and self._judges_need(config)

    def clear(self) -> None:
        """Forget the answers."""
        self._answers.clear()
        self._watched.clear()

    def _judges_need(self, config: OndaConfig) -> bool:
        return config.confidence_drop > 0 and self._usual is not None

    @property
    def holding(self) -> bool:
        """Whether adaptation rests because of an alarm."""
        return self._held > 0

    # At rest: what the network says is what the source says.

    def observe(self, logits: Tensor) -> None:
        """Remember what the source said of a frame."""
        (probability, *_), (label, *_) = (t.tolist() for t in confidence(self._source, logits))
        if math.isfinite(probability):
            self._answers.append(Answer(label, probability, label))

    def wake(self, frames: int, config: OndaConfig) -> bool:
        """Whether to adapt from now on; asked after every so many frames at rest."""
        self._held = max(0, self._held - frames)
        if self.holding:
            return False
        few = len(self._answers) < RECENT
        if self._judges_need(config) and (few or self.confidence_drop() < config.confidence_drop):
            return False
        self.resting = False
        self.clear()
        return True

    # Adapting.

    def keep(self, images: Tensor, logits: Tensor, since_update: int, config: OndaConfig) -> None:
        """Keep one image of some frames of an update, and what the adapted network says of it."""
        every = max(1, config.frames_per_update // CHECKED)
        if since_update % every == 0 and len(self._watched) < CHECKED:
            label = int(confidence(self._source, logits[:1])[1])
            self._watched.append((images[:1].detach().clone(), label))

    def kept(self) -> list[tuple[Tensor, int]]:
        """The images kept since the last update."""
        watched, self._watched = self._watched, []
        return watched

    @torch.no_grad()
    def compare(self, watched: Sequence[tuple[Tensor, int]]) -> list[Answer]:
        """Ask the source too; slow, and safe beside passes of the network itself."""
        answers = []
        with self._lock:
            for image, adapted in watched:
                probability, label = confidence(self._source, self._logits(self._source(image)))
                answers.append(Answer(int(label), float(probability), adapted))
        return answers

    def judge(self, answers: Sequence[Answer], config: OndaConfig) -> str | None:
        """After an update: go to rest if adaptation is lost, and say why, or not needed."""
        self._answers.extend(answers)
        problem = self._problem(config)
        if problem is not None:
            self._held = config.alarm_hold * self._hold
            self._hold = min(2 * self._hold, LONGEST_HOLD)
            self.resting = True
        elif len(self._answers) == WINDOW:
            self._hold = 1
            self.resting = self._judges_need(config) and self.confidence_drop() < 0
        return problem

    def _problem(self, config: OndaConfig) -> str | None:
        """Agreement below its limit by a standard error.

        The source is wrong more often where it is less confident, by about as much: so much less
        a network that is right may agree with it.
        """
        agreement, count = self.agreement(), len(self._certain())
        drop = self.confidence_drop()
        judged = self._less_diverse() or drop < TRUSTED  # NaN, where it is not known, is not
        if not config.alarm or math.isnan(agreement) or not judged:
            return None
        limit = config.alarm_agreement - (0.0 if math.isnan(drop) else max(0.0, drop))
        limit = max(limit, 1e-6)
        if agreement >= limit - math.sqrt(limit * (1 - limit) / count):
            return None
        return (
            f"agrees with the source on {100 * agreement:.0f} % of {count} images that the source "
            f"is certain of, limit {100 * limit:.0f} %"
        )

    # What is known.

    def agreement(self) -> float:
        """Share of the images the source is certain of whose class both name; NaN if too few."""
        alike = [a.label == a.adapted for a in self._certain()]
        return sum(alike) / len(alike) if len(alike) >= CERTAIN_ENOUGH else math.nan

    def _less_diverse(self) -> bool:
        """Whether the adapted network names fewer classes than the source, by entropy.

        A network that collapses does. In a light in which the source is certain and wrong it is
        the source that names few.
        """
        recent = list(self._answers)[-RECENT:]
        adapted, source = ([a.adapted for a in recent], [a.label for a in recent])
        return _entropy(adapted) <= LESS_DIVERSE * _entropy(source)

    def _certain(self) -> list[Answer]:
        return [answer for answer in list(self._answers)[-RECENT:] if answer.certain]

    def confidence_drop(self) -> float:
        """How much less confident the source is than on its own images; NaN if not known."""
        if self._usual is None or not self._answers:
            return math.nan
        return self._usual - sum(a.confidence for a in self._answers) / len(self._answers)


def _entropy(labels: Sequence[int]) -> float:
    """Of how often each label occurs, in nats."""
    shares = [count / len(labels) for count in Counter(labels).values()]
    return -sum(share * math.log(share) for share in shares)
