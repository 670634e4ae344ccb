# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from newfound_web.combining import DEFAULT_WEIGHT, FLOOR, combine
from newfound_web.providers.base import Candidate

WEIGHTS = {"imagenet": 0.5, "names": 2.0, "library": 10.0}


def candidates(provider, *pairs):
    return [Candidate(label, confidence, provider) for label, confidence in pairs]


def test_a_name_that_two_providers_propose_wins():
    found = combine(
        [
            candidates("imagenet", ("vase", 0.4), ("tea_pot", 0.3)),
            candidates("names", ("jug", 0.1), ("tea pot", 0.1)),
        ],
        WEIGHTS,
    )
    assert (found[0].label, found[0].provider) == ("tea_pot", "imagenet+names")


def test_a_provider_counts_once_for_a_name_and_keeps_what_it_says_of_it():
    found = combine(
        [
            candidates("imagenet", ("crane", 0.4), ("Crane", 0.3), ("vase", 0.1)),
            [Candidate("crane", 0.2, "names", 0.9)],
        ],
        WEIGHTS,
    )
    assert (found[0].provider, found[0].span_share) == ("imagenet+names", 0.9)
    once = 0.5 * math.log(0.4 / FLOOR) + 2 * math.log(0.2 / FLOOR)
    other = 0.5 * math.log(0.1 / FLOOR)
    assert found[0].confidence == pytest.approx(1 / (1 + math.exp(other - once)))


def test_confidences_follow_the_equation():
    found = combine(
        [
            candidates("names", ("a", 0.2), ("b", 0.1)),
            candidates("library", ("b", 0.8), ("c", 0.6)),
            candidates("other", ("c", 0.5)),
        ],
        WEIGHTS,
    )
    scores = {
        "a": 2 * math.log(0.2 / FLOOR),
        "b": 2 * math.log(0.1 / FLOOR) + 10 * (0.8 - 0.7),
        "c": 10 * (0.6 - 0.7) + DEFAULT_WEIGHT * math.log(0.5 / FLOOR),
    }
    total = sum(map(math.exp, scores.values()))
    assert {c.label: c.confidence for c in found} == {
        name: pytest.approx(math.exp(score) / total) for name, score in scores.items()
    }
    assert [c.label for c in found] == sorted(scores, key=lambda n: -scores[n])


def test_nothing_proposed_is_nothing_found():
    assert combine([[], []]) == []
