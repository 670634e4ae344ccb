# SPDX-License-Identifier: Apache-2.0
"""AdaGraph in a node: what is known of the domain, and jumps to statistics predicted for it.

Known is what parameters and ~/domain say, and what is measured on the frames or reported by the
camera with them (exposure, say, as a measured field on ~/domain). Measured fields of
one frame are uncertain: in the first frames of a domain the prediction is made again with the mean
so far. Later, two frames that both lie outside of what the domain looked like begin another. What
ONDA had made of a domain is remembered when it is left: one that looks like an earlier one goes
on from there.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from newfound_core.errors import DataError, NewfoundError
from newfound_core.onda.statistics import Statistics
from newfound_core.predictive import DomainGraph, Measurer, Prediction
from newfound_core.predictive.choice import change, change_of_all
from newfound_core.predictive.measured import average
from newfound_msgs.msg import DomainMetadata
from newfound_nodes.adaptation.updates import Adaptation
from newfound_runtime.parameters import Parameter

PREFIX = "metadata."
REFINED = 5  # frames of a domain whose measured fields are averaged
COMPARED = 2  # frames that together begin another domain
REMEMBERED = 8  # domains
FOLLOWED = 0.05  # how fast a domain's measured fields follow the frames

PARAMETERS = (
    Parameter(
        "change_threshold",
        0.0,
        "Change of the measured fields, 1 being usual within a domain, at which statistics are "
        "predicted anew; 0: what the checkpoint says. Of method adagraph.",
        minimum=0.0,
        live=True,
    ),
    Parameter(
        "refine_rate",
        0.0,
        "Step of scale and bias with every update (AdaGraph's refinement); 0: they stay.",
        minimum=0.0,
        maximum=0.1,
    ),
)


@dataclass(frozen=True)
class Visited:
    """A domain that was left."""

    measured: dict[str, float]
    statistics: Statistics
    frames: int  # that it was seen


class DomainPredictor:
    """Predicts statistics when the description changes, or what the frames look like."""

    def __init__(
        self,
        graph: DomainGraph,
        adaptation: Adaptation,
        measurer: Measurer,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` gets a sentence about each prediction."""
        self._graph, self._adaptation = graph, adaptation
        self._measurer, self._tell = measurer, tell
        self._lock = threading.Lock()
        self._written: dict[str, Any] = {}
        self._reported: dict[str, float] = {}  # by the camera, of the frames to come
        self._told: tuple[Any, ...] = ()
        self._measured: list[dict[str, float]] = []  # of the first frames of the domain
        self._recent: deque[dict[str, float]] = deque(maxlen=COMPARED)
        self._usual: dict[str, float] = {}
        self._frames = 0  # of the present domain
        self._visited: list[Visited] = []
        self.change_threshold = 0.0

    def begin(self, values: Mapping[str, Any], *, predict: bool) -> None:
        """Begin with what is known; without `predict` go on with the statistics that there are."""
        values = self._report(values)
        with self._lock:
            self._written = values
            if not predict:
                self._measured = [{}] * REFINED  # no frame of this domain makes a prediction
            elif values or not self._graph.schema.measured:
                self._predict(keep_frames=False)

    def check(self, values: Mapping[str, Any]) -> None:
        """A DataError for a field that there is not, or a value that it cannot have."""
        for name in values:
            self._graph.schema.field(name)  # also one that is no longer known
        self._graph.schema.check({name: value for name, value in values.items() if value != ""})

    def describe(self, values: Mapping[str, Any]) -> None:
        """Take over what is known from now on, "" for no longer; a DataError changes nothing."""
        self.check(values)
        if values and not (values := self._report(values)):
            return
        given = {name: value for name, value in values.items() if value != ""}
        with self._lock:
            known = {n: v for n, v in self._written.items() if n not in values} | given
            if known == self._written and self._adaptation.prediction is not None:
                return
            self._written = known
            self._visited = []  # of another description
            if known or not self._graph.schema.measured:
                self._predict(keep_frames=False)

    def _report(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Take out what the camera says of its frames: it changes all the time."""
        rest = dict(values)
        for field in self._graph.schema.measured:
            if field.name not in self._measurer.names and field.name in rest:
                value = rest.pop(field.name)
                with self._lock:
                    self._reported.pop(field.name, None)
                    if value != "":
                        self._reported[field.name] = field.number(value)
        return rest

    def observe(self, image: np.ndarray) -> None:
        """Look at a frame before it is predicted."""
        with self._lock:
            if self._adaptation.onda.status().frozen or not self._measures():
                return
            found = self._measurer(image) | self._reported
            self._recent.append(found)
            self._frames += 1
            if len(self._measured) >= REFINED and self._changed():
                found = average(list(self._recent))
                self._remember()
                if self._return_to(found):
                    return
                self._measured = []
            if len(self._measured) < REFINED:
                self._measured.append(found)
                self._usual = average(self._measured)
                self._predict(keep_frames=len(self._measured) > 1)
            else:
                self._usual = found | {
                    name: value + FOLLOWED * (found[name] - value)
                    for name, value in self._usual.items()
                    if name in found
                }

    def _remember(self) -> None:
        """Keep what ONDA made of the domain that is left, in place of what it was before."""
        left = Visited(self._usual, self._adaptation.onda.online, self._frames)
        others = [v for v in self._visited if self._apart(v.measured, self._usual)]
        self._visited = [*others, left][-REMEMBERED:]
        self._frames = 0

    def _return_to(self, measured: dict[str, float]) -> bool:
        """Go on where a domain that looks like this was left, if there is one."""
        near = [v for v in self._visited[:-1] if not self._apart(v.measured, measured)]
        if not near:
            return False
        found = min(near, key=lambda v: change(self._graph, v.measured, measured))
        self._usual, self._frames = found.measured, found.frames
        predicted = self._graph.predict({**found.measured, **self._written})
        again = replace(predicted, statistics=found.statistics)
        self._adaptation.predict(again, float(found.frames), keep_frames=False)
        return True

    def _apart(self, one: dict[str, float], other: dict[str, float]) -> bool:
        limit = self.change_threshold or self._graph.config.change_threshold
        return change(self._graph, one, other) > limit

    def _measures(self) -> bool:
        return self._graph.uses_measured(self._written)

    def _changed(self) -> bool:
        if not self._usual:  # statistics came from elsewhere: this is what they belong to
            self._usual = average(list(self._recent))
            return False
        if len(self._recent) < COMPARED:
            return False
        limit = self.change_threshold or self._graph.config.change_threshold
        return change_of_all(self._graph, self._usual, list(self._recent)) > limit

    def _predict(self, *, keep_frames: bool) -> None:
        measured = average(self._measured) if self._measured and self._measures() else {}
        found = self._graph.predict({**measured, **self._written})
        self._adaptation.predict(found, self._graph.config.prior_frames, keep_frames=keep_frames)
        told = (tuple(sorted(self._written.items())), found.extrapolates, found.notes)
        if not keep_frames and (told != self._told or measured):
            self._told = told
            parts = ", ".join(f"{100 * s:.0f} % {n}" for n, s in list(found.shares.items())[:3])
            far = "; this extrapolates" if found.extrapolates else ""
            notes = "".join(f"; {note}" for note in found.notes)
            self._tell(f"statistics predicted from {parts}, at {found.distance:.2f}{far}{notes}")


class MetadataInputs:
    """The parameters `metadata.<field>` and the topic ~/domain of one node."""

    def __init__(self, node: Node, group: CallbackGroup, predictor: DomainPredictor) -> None:
        self._node, self._predictor = node, predictor
        self._subscription = node.create_subscription(
            DomainMetadata, "~/domain", self._received, 10, callback_group=group
        )

    def close(self) -> None:
        """Stop listening."""
        self._node.destroy_subscription(self._subscription)

    def _received(self, message: DomainMetadata) -> None:
        try:
            if len(message.names) != len(message.values):
                raise DataError(f"{len(message.names)} names, but {len(message.values)} values")
            self._predictor.describe(dict(zip(message.names, message.values, strict=True)))
        except NewfoundError as error:
            self._node.get_logger().warning(f"~/domain ignored: {error}")


def written(node: Node) -> dict[str, Any]:
    """The fields that parameters `metadata.<field>` give a value."""
    found: dict[str, Any] = dict(node.get_parameters_by_prefix(PREFIX.rstrip(".")))
    return {name: p.value for name, p in found.items() if p.value not in (None, "")}


def fields_among(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields among the new values of parameters."""
    return {
        name.removeprefix(PREFIX): "" if value is None else value
        for name, value in values.items()
        if name.startswith(PREFIX)
    }


def diagnosis(prediction: Prediction | None) -> dict[str, object]:
    """What the statistics in use are composed of."""
    if prediction is None:
        return {}
    name, share = next(iter(prediction.shares.items()))
    return {
        "predicted_from": f"{name} ({share:.0%})",
        "domain_distance": round(prediction.distance, 3),
        "extrapolates": prediction.extrapolates,
    }


def declare_fields(node: Node, graph: DomainGraph) -> None:
    """Declare `metadata.<field>` for each field that is not declared yet."""
    for field in graph.schema.fields:
        if not node.has_parameter(name := f"{PREFIX}{field.name}"):
            kind = f"{field.kind}{': ' + ', '.join(field.values) if field.values else ''}"
            described = ParameterDescriptor(
                description=f"Of the domain that the camera is in ({kind}); empty: not known.",
                dynamic_typing=True,
            )
            node.declare_parameter(name, "", described)
