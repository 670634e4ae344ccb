# SPDX-License-Identifier: Apache-2.0
"""The ROS side of adaptation: parameters, services and the status message."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter
from rclpy.time import Time
from std_srvs.srv import SetBool, Trigger

from newfound_core.onda import OndaConfig, OndaStatus
from newfound_msgs.msg import AdaptationStatus
from newfound_nodes.adaptation.state import SAVED, StateError
from newfound_nodes.adaptation.updates import (
    ALARM,
    NOT_NEEDED,
    PREDICTED,
    REQUESTED,
    RESTORED,
    Adaptation,
)
from newfound_runtime.parameters import Parameter

_REASONS = {
    "": AdaptationStatus.RESET_NONE,
    REQUESTED: AdaptationStatus.RESET_REQUESTED,
    ALARM: AdaptationStatus.RESET_ALARM,
    NOT_NEEDED: AdaptationStatus.RESET_NOT_NEEDED,
    RESTORED: AdaptationStatus.RESET_RESTORED,
    PREDICTED: AdaptationStatus.RESET_PREDICTED,
}
_DEFAULT = OndaConfig()
_TINY = 1e-6  # for ranges that leave out zero
_CONSTANT = 0.0  # as `settled_momentum`: ROS parameters have no None

PARAMETERS = (
    Parameter("adapt", True, "Let the statistics follow the stream; false: the model as trained."),
    Parameter(
        "freeze", False, "Keep the statistics as they are now; also by ~/freeze.", live=True
    ),
    Parameter(
        "estimator",
        _DEFAULT.estimator,
        "batch: a second pass in another thread, as exact as training; "
        "streaming: while predicting, without a second pass.",
        choices=("batch", "streaming"),
    ),
    Parameter(
        "layers",
        _DEFAULT.layers,
        "Normalisation layers that adapt: all, the last n as last:n, or auto, what the "
        "checkpoint says.",
    ),
    Parameter(
        "frames_per_update",
        _DEFAULT.frames_per_update,
        "Images behind one update of the statistics (n_t).",
        minimum=2,
        maximum=1000,
        live=True,
    ),
    Parameter(
        "momentum",
        _DEFAULT.momentum,
        "Weight of an update (alpha), above 0, at most 1.",
        minimum=_TINY,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        "settled_momentum",
        _DEFAULT.settled_momentum or _CONSTANT,
        "What the momentum falls to while the stream stays as it is; 0: it does not fall.",
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        "positions_per_frame",
        _DEFAULT.positions_per_frame,
        "Positions of a feature map that `streaming` looks at in each image.",
        minimum=1,
    ),
    Parameter(
        "balanced",
        _DEFAULT.balanced,
        "Draw the images of an update from a memory balanced over predicted classes.",
    ),
    Parameter("memory_size", _DEFAULT.memory_size, "Images in that memory.", minimum=2),
    Parameter("anchor", _DEFAULT.anchor, "Serve a mixture of source and online statistics."),
    Parameter(
        "anchor_online_share",
        _DEFAULT.anchor_online_share,
        "Share of the online statistics in that mixture, above 0, at most 1.",
        minimum=_TINY,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        "confidence_drop",
        _DEFAULT.confidence_drop,
        "Adapt only while the source is less confident by so much than on its own images; 0: "
        "always. A checkpoint that does not know its confidence always adapts.",
        minimum=0.0,
        maximum=0.99,
        live=True,
    ),
    Parameter(
        "alarm",
        _DEFAULT.alarm,
        "Return to the source when the adapted model contradicts it where it is certain.",
    ),
    Parameter(
        "alarm_agreement",
        _DEFAULT.alarm_agreement,
        "Share of those images on which both must agree, above 0, below 1.",
        minimum=_TINY,
        maximum=1 - _TINY,
        live=True,
    ),
    Parameter(
        "alarm_hold",
        _DEFAULT.alarm_hold,
        "Images without adaptation after an alarm; doubles with every further one.",
        minimum=1,
        live=True,
    ),
    Parameter(
        "skip_redundant",
        _DEFAULT.skip_redundant,
        "Images that look like the last one that counted do not count.",
    ),
    Parameter(
        "redundancy_threshold",
        _DEFAULT.redundancy_threshold,
        "Mean difference of thumbnails, in normalised pixels, below which images look alike.",
        minimum=0.0,
        live=True,
    ),
)

NAMES = frozenset(p.name for p in PARAMETERS) - {"adapt", "freeze"}


def options(values: Mapping[str, Any]) -> dict[str, Any]:
    """ONDA's options among the values of parameters."""
    found = {name: values[name] for name in NAMES if name in values}
    if "settled_momentum" in found:
        found["settled_momentum"] = found["settled_momentum"] or None
    return found


class AdaptationServices:
    """The services of one node; each answers what was done, or why not.

    `adaptation` gives what they act upon, None while there is none; `done` is called after each.
    """

    def __init__(
        self,
        node: Node,
        group: CallbackGroup,
        adaptation: Callable[[], Adaptation | None],
        done: Callable[[], None],
    ) -> None:
        self._node, self._adaptation, self._done = node, adaptation, done
        actions = {"reset": self._reset, "save": self._save, "restore": self._restore}
        for name, action in actions.items():
            node.create_service(Trigger, f"~/{name}", self._callback(action), callback_group=group)
        node.create_service(
            SetBool, "~/freeze", self._callback(self._freeze), callback_group=group
        )

    def _callback(self, action: Callable[[Adaptation, Any], str]) -> Callable[[Any, Any], Any]:
        def answer(request: Any, response: Any) -> Any:
            adaptation = self._adaptation()
            if adaptation is None:
                response.success = False
                response.message = "nothing adapts: not configured, or the parameter adapt is off"
                return response
            try:
                response.message, response.success = action(adaptation, request), True
            except StateError as error:
                response.message, response.success = str(error), False
            self._done()
            return response

        return answer

    def _reset(self, adaptation: Adaptation, _: Trigger.Request) -> str:
        adaptation.reset()
        which = "those of the source" if adaptation.prediction is None else "the predicted ones"
        return f"the statistics are {which} again"

    def _freeze(self, _: Adaptation, request: SetBool.Request) -> str:
        # By the parameter, so that it always tells what is so.
        self._node.set_parameters([RosParameter("freeze", value=request.data)])
        return "frozen" if request.data else "follows the stream"

    def _save(self, adaptation: Adaptation, _: Trigger.Request) -> str:
        return f"saved as {adaptation.save(SAVED)}"

    def _restore(self, adaptation: Adaptation, _: Trigger.Request) -> str:
        return f"goes on from {adaptation.restore(SAVED)}"


def status_message(adaptation: Adaptation | None, header: Any) -> AdaptationStatus:
    """What is so now; without adaptation, that it is off."""
    message = AdaptationStatus(message=_text(adaptation), entropy=math.nan)
    message.agreement = message.confidence_drop = message.domain_distance = math.nan
    if header is not None:
        message.header = header
    if adaptation is None:
        return message
    onda, report = adaptation.onda, adaptation.report()
    status, drift = onda.status(), onda.drift()
    message.state = _state(status)
    message.alarms = status.alarms
    message.agreement = status.agreement
    message.confidence_drop = status.confidence_drop
    message.estimator = onda.config.estimator
    message.frames, message.frames_skipped = report.frames, report.skipped
    message.updates = report.updates
    message.frames_per_update = onda.config.frames_per_update
    message.momentum = onda.config.momentum
    message.layers = list(drift.per_layer)
    message.drift = list(drift.per_layer.values())
    message.drift_mean, message.drift_max = drift.mean, drift.maximum
    message.entropy = report.entropy
    if adaptation.prediction is not None:
        message.node_names = list(adaptation.prediction.shares)
        message.node_weights = list(adaptation.prediction.shares.values())
        message.domain_distance = adaptation.prediction.distance
    message.last_reset_reason = _REASONS[report.reset_reason]
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
    if status.resting and report.reset_reason != ALARM:
        return "at rest: the source is about as confident as on its own images"
    if adaptation.prediction is not None:
        return f"follows the stream from statistics predicted near {status.start}"
    lost = f"alarm: {status.last_alarm}; the source was restored" if status.alarms else ""
    return f"at rest after an {lost}" if status.resting else lost


def _state(status: OndaStatus) -> int:
    if status.frozen:
        return AdaptationStatus.STATE_FROZEN
    return AdaptationStatus.STATE_RESTING if status.resting else AdaptationStatus.STATE_ADAPTING
