# SPDX-License-Identifier: Apache-2.0
"""Names the kind of place the camera sees, in buildings never seen in training."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from newfound_core.places import PlaceFilter
from newfound_msgs.msg import AdaptationStatus, PlaceCategory
from newfound_nodes.adaptation import prediction
from newfound_nodes.adaptive_classifier import AdaptiveClassifier, entropy
from newfound_nodes.debug_images import Chart
from newfound_nodes.model_node import probabilities_of
from newfound_runtime.images import Frame
from newfound_runtime.parameters import Parameter

RESOLUTION = 1e-6  # s; stamps nearer than this are equal
# Off unless asked for: a robot that stays in one room adapts to that room. Behind the stages that
# were frozen in training there are four layers, the only ones whose statistics know the domains.
_DEFAULTS = {"adapt": False, "layers": "last:4"}
ADAPTATION = tuple(
    replace(parameter, default=_DEFAULTS.get(parameter.name, parameter.default))
    for parameter in AdaptiveClassifier.PARAMETERS
    if parameter not in prediction.PARAMETERS and parameter.name != "checkpoint"
)


class PlaceBelief:
    """A `PlaceFilter` that knows how much time has passed between two frames.

    "Unknown", where the model has it, is one more place that the robot may be in.

    The place changes with a probability per second, so the belief does not depend on the
    frame rate. After a gap, or when time runs backwards (a bag that is played again), the robot
    may be anywhere: the filter begins anew.
    """

    def __init__(self, places: int) -> None:
        self._filter = PlaceFilter(places)
        self._last: tuple[float, float] | None = None  # stamp and arrival of the last frame

    def update(
        self,
        probabilities: np.ndarray,
        *,
        stamp: float,
        received: float,
        change_per_second: float,
        gap: float,
    ) -> np.ndarray:
        """The belief after a frame with these probabilities; times in seconds."""
        passed = self._passed(stamp, received)
        if not 0 <= passed <= gap:
            self._filter.reset()
            passed = 0.0
        # Once the robot may have moved anywhere, more time changes nothing.
        most = (self._filter.places - 1) / self._filter.places
        change = 1 - (1 - change_per_second) ** passed
        self._filter.change_probability = min(change, most)
        return self._filter.update(probabilities)

    def forget(self) -> None:
        """Begin anew with the next frame."""
        self._filter.reset()
        self._last = None

    def _passed(self, stamp: float, received: float) -> float:
        last, self._last = self._last, (stamp, received)
        if last is None:
            return 0.0
        if abs(stamp - last[0]) < RESOLUTION:  # a camera that does not stamp its images
            return received - last[1]
        return stamp - last[0]


class PlaceCategorizer(AdaptiveClassifier):
    """One `PlaceCategory` for each image; with `filter`, what was seen before counts too.

    ONDA follows the stream as in the adaptive classifier, whose parameters and services it has.
    """

    NAME = "place_categorizer"
    METHODS = ("bn", "wbn", "bsf")
    TASK_METHODS = ("bn",)
    PARAMETER_PREFIXES = ()
    PARAMETERS = (
        Parameter(
            "checkpoint",
            "rooms",
            "Folder of a checkpoint of method bn, wbn or bsf, or the name of a shipped one.",
        ),
        Parameter("filter", False, "Follow the place over time by a Bayes filter.", live=True),
        Parameter(
            "filter_change_probability",
            0.2,
            "That the robot is in another kind of place one second later; above 0, below 1.",
            minimum=1e-6,
            maximum=0.999,
            live=True,
        ),
        Parameter(
            "filter_gap",
            5.0,
            "Seconds without an image after which the filter begins anew.",
            minimum=0.0,
            live=True,
        ),
        *ADAPTATION,
    )
    OUTPUTS: ClassVar = {"place": (PlaceCategory, 10), "adaptation": (AdaptationStatus, 10)}

    def served(self) -> None:
        """A filter that has seen nothing, for the places of the model."""
        super().served()
        rejects = getattr(self.loaded.model, "rejection", None) is not None
        self._belief = PlaceBelief(len(self.loaded.labels) + rejects)

    def process(self, frame: Frame) -> None:
        """One image in, its place out."""
        output = self.inference([frame.rgb])
        self.note_domains(output)
        seen = probabilities_of(output.logits[0])
        filtered = self.param("filter")
        belief = self._follow(frame, seen) if filtered else seen
        if not filtered:
            self._belief.forget()
        message = PlaceCategory(
            header=frame.header,
            filtered=filtered,
            image_probabilities=self.answer(seen)["probabilities"],
            domains=self.loaded.metadata.domains,
            domain_weights=_normalised(output.domain_weights[0]).tolist(),
            model=self.loaded.name,
            **self.answer(belief),
        )
        self.publish("place", message)
        self.publish_vision(frame.header, belief)
        self._header = frame.header
        if self._adaptation is not None:
            self._adaptation.count_frame(entropy(seen))
        if self.debug_wanted():
            self._draw(frame, message)

    def _follow(self, frame: Frame, seen: np.ndarray) -> np.ndarray:
        stamp = frame.header.stamp
        return self._belief.update(
            seen,
            stamp=stamp.sec + stamp.nanosec * 1e-9,
            received=frame.received,
            change_per_second=self.param("filter_change_probability"),
            gap=self.param("filter_gap"),
        )

    def _draw(self, frame: Frame, message: PlaceCategory) -> None:
        caption = f"{message.label or 'unknown'}  {message.confidence:.0%}"
        caption += "  (filtered)" if message.filtered else ""
        if len(message.domains):
            chart = Chart("domain weights", message.domain_weights, message.domains)
        else:
            chart = Chart("places", message.probabilities, message.labels)
        self.publish_debug(frame, caption, chart)

    def diagnose(self) -> Mapping[str, object]:
        """The model, and whether it is filtered."""
        return {**super().diagnose(), "filter": self.param("filter")}


def _normalised(values: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """As double precision, where a sum of one stays one."""
    array = values.detach().cpu().double().numpy()
    return array / array.sum() if array.size else array
