# SPDX-License-Identifier: Apache-2.0
"""The state of adaptation as a message."""

from typing import Any

from rclpy.time import Time

from newfound_msgs.msg import AdaptationStatus
from newfound_nodes.adaptation import DRIFT, ENTROPY, REQUESTED, RESTORED, Adaptation

REASONS = {
    "": AdaptationStatus.RESET_NONE,
    REQUESTED: AdaptationStatus.RESET_REQUESTED,
    DRIFT: AdaptationStatus.RESET_DRIFT,
    ENTROPY: AdaptationStatus.RESET_ENTROPY,
    RESTORED: AdaptationStatus.RESET_RESTORED,
}


def status_message(adaptation: Adaptation | None, header: Any) -> AdaptationStatus:
    """What is so now; without adaptation, that it is off."""
    message = AdaptationStatus(message=_text(adaptation), entropy=float("nan"))
    if header is not None:
        message.header = header
    if adaptation is None:
        return message
    onda, report = adaptation.onda, adaptation.report()
    status, drift = onda.status(), onda.drift()
    message.state = message.STATE_FROZEN if status.frozen else message.STATE_ADAPTING
    message.estimator = onda.config.estimator
    message.frames, message.frames_skipped = report.frames, report.skipped
    message.updates = report.updates
    message.frames_per_update = onda.config.frames_per_update
    message.momentum = onda.config.momentum
    message.layers = list(drift.per_layer)
    message.drift = list(drift.per_layer.values())
    message.drift_mean, message.drift_max = drift.mean, drift.maximum
    message.entropy = report.entropy
    message.last_reset_reason = REASONS[report.reset_reason]
    for field, seconds in (("last_update", report.last_update), ("last_reset", report.last_reset)):
        if seconds is not None:
            setattr(message, field, Time(nanoseconds=round(seconds * 1e9)).to_msg())
    return message


def _text(adaptation: Adaptation | None) -> str:
    """For a person."""
    if adaptation is None:
        return "adaptation is off: the parameter adapt is false"
    status, report = adaptation.onda.status(), adaptation.report()
    if status.frozen:
        return "frozen by the parameter freeze or the service of that name"
    if report.failing:
        return f"the last update failed, {report.updates_failed} in all; see the log of the node"
    lost = status.last_reset
    return f"the anchor restored the source: {lost}" if lost else ""
