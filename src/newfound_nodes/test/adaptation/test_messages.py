# SPDX-License-Identifier: Apache-2.0
"""What a status says is tested where it is published, in test_adaptive_classifier."""

import math

from newfound_msgs.msg import AdaptationStatus
from newfound_nodes.adaptation.interface import _REASONS, status_message
from newfound_nodes.adaptation.updates import ALARM, NOT_NEEDED, PREDICTED, REQUESTED, RESTORED


def test_every_reason_of_a_reset_has_its_constant():
    assert sorted(_REASONS) == sorted(["", REQUESTED, ALARM, NOT_NEEDED, RESTORED, PREDICTED])
    assert sorted(_REASONS.values()) == list(range(AdaptationStatus.RESET_PREDICTED + 1))


def test_without_adaptation_the_state_is_disabled():
    message = status_message(None, None)
    assert message.state == AdaptationStatus.STATE_DISABLED
    assert "adaptation is off" in message.message
    assert math.isnan(message.entropy)
