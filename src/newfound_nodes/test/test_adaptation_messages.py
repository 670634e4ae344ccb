# SPDX-License-Identifier: Apache-2.0
"""What a status says is tested where it is published, in test_adaptive_classifier."""

import math

from newfound_msgs.msg import AdaptationStatus
from newfound_nodes.adaptation import DRIFT, ENTROPY, REQUESTED, RESTORED
from newfound_nodes.adaptation_messages import REASONS, status_message


def test_every_reason_of_a_reset_has_its_constant():
    assert sorted(REASONS) == sorted(["", REQUESTED, DRIFT, ENTROPY, RESTORED])
    assert sorted(REASONS.values()) == list(range(AdaptationStatus.RESET_RESTORED + 1))


def test_without_adaptation_the_state_is_disabled():
    message = status_message(None, None)
    assert message.state == AdaptationStatus.STATE_DISABLED
    assert "adaptation is off" in message.message
    assert math.isnan(message.entropy)
