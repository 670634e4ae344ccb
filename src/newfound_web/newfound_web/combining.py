# SPDX-License-Identifier: Apache-2.0
"""Combine the candidates of several label providers into one ranking.

    score(name) = sum_p w_p e_p(name),   confidence = softmax of the scores of all names proposed

e_p is log(confidence / floor) of a provider that answers probabilities, and the cosine of the
library beyond what its labels have on average; a provider that did not propose a name adds zero.
The weights were fitted on held-out images: `python -m studies.name_providers`, docs/naming.md.
"""

import math
from collections.abc import Mapping, Sequence

from newfound_web.providers.base import Candidate
from newfound_web.text import same_name

POOL = 50  # candidates asked of each provider
FLOOR = 1e-3  # probability below which a proposal says nothing
WEIGHTS: Mapping[str, float] = {"imagenet": 0.1, "names": 0.8, "library": 60.0}
DEFAULT_WEIGHT = 0.5  # of other packages' providers


def evidence(found: Sequence[Candidate]) -> list[float]:
    """e_p of one provider's candidates."""
    if found and found[0].provider == "library":
        mean = sum(c.confidence for c in found) / len(found)
        return [c.confidence - mean for c in found]
    return [math.log(max(c.confidence, FLOOR) / FLOOR) for c in found]


def combine(
    answers: Sequence[Sequence[Candidate]], weights: Mapping[str, float] = WEIGHTS
) -> list[Candidate]:
    """All names that were proposed, best first; `provider` names those that proposed one."""
    scores: dict[str, float] = {}
    proposed: dict[str, list[Candidate]] = {}
    for found in answers:
        own: set[str] = set()  # a provider's first word on a name counts: ImageNet has two cranes
        for candidate, amount in zip(found, evidence(found), strict=True):
            name = same_name(candidate.label)
            if name in own:
                continue
            own.add(name)
            weight = weights.get(candidate.provider, DEFAULT_WEIGHT)
            scores[name] = scores.get(name, 0.0) + weight * amount
            proposed.setdefault(name, []).append(candidate)
    if not scores:
        return []
    top = max(scores.values())
    total = sum(math.exp(score - top) for score in scores.values())
    ranked = sorted(scores, key=lambda name: -scores[name])
    return [
        Candidate(
            proposed[name][0].label,
            math.exp(scores[name] - top) / total,
            "+".join(candidate.provider for candidate in proposed[name]),
            max(candidate.span_share for candidate in proposed[name]),
        )
        for name in ranked
    ]
