# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from newfound_runtime import qos

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
VOLATILE, LATCHED = DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL


def publishers(*offers):
    return [
        SimpleNamespace(qos_profile=QoSProfile(depth=1, reliability=r, durability=d))
        for r, d in offers
    ]


@pytest.mark.parametrize(
    ("offers", "reliability", "durability"),
    [
        ([], BEST_EFFORT, VOLATILE),
        ([(RELIABLE, VOLATILE)], RELIABLE, VOLATILE),
        ([(BEST_EFFORT, VOLATILE)], BEST_EFFORT, VOLATILE),
        ([(RELIABLE, LATCHED)], RELIABLE, LATCHED),
        ([(RELIABLE, LATCHED), (BEST_EFFORT, VOLATILE)], BEST_EFFORT, VOLATILE),
    ],
)
def test_the_strictest_profile_that_every_publisher_offers(offers, reliability, durability):
    profile = qos.matching(publishers(*offers))
    assert (profile.reliability, profile.durability) == (reliability, durability)


def test_a_wish_overrides_what_is_offered():
    offer = publishers((BEST_EFFORT, VOLATILE))
    assert qos.matching(offer, "reliable").reliability == RELIABLE
    assert qos.matching(publishers((RELIABLE, VOLATILE)), "best_effort").reliability == BEST_EFFORT
