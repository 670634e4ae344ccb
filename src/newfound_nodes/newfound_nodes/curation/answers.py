# SPDX-License-Identifier: Apache-2.0
"""What the answer of a service means for a proposal."""

from collections.abc import Mapping
from typing import Any

from newfound_msgs.srv import AddUnknownClass, DismissUnknown, FetchImages, QueryLabel
from newfound_nodes.curation.proposal import Answer, Candidate, Outcome, Phase

_Query, _Fetch = QueryLabel.Response, FetchImages.Response
_Add, _Dismiss = AddUnknownClass.Response, DismissUnknown.Response

# What is not listed, a defect above all, has failed and may work if tried again.
_LABELS: Mapping[int, Outcome] = {
    _Query.RESULT_OK: "done",
    _Query.RESULT_NOTHING_FOUND: "refused",
    _Query.RESULT_BAD_IMAGE: "refused",
    _Query.RESULT_NOT_READY: "busy",
}
_IMAGES: Mapping[int, Outcome] = {
    _Fetch.RESULT_OK: "done",
    _Fetch.RESULT_NOTHING_FOUND: "refused",
    _Fetch.RESULT_INVALID_LABEL: "refused",
    _Fetch.RESULT_STORAGE: "refused",  # a full disk of images is no reason not to learn
    _Fetch.RESULT_NOT_READY: "busy",
}
_LEARNING: Mapping[int, Outcome] = {
    _Add.RESULT_OK: "done",
    _Add.RESULT_INVALID_LABEL: "refused",
    _Add.RESULT_LABEL_EXISTS: "exists",
    _Add.RESULT_UNKNOWN_ID: "gone",
    _Add.RESULT_BAD_IMAGES: "refused",
    _Add.RESULT_BUSY: "busy",
    _Add.RESULT_NOT_READY: "busy",
    _Add.RESULT_STORAGE: "busy",  # room may be made
}
_DISMISSING: Mapping[int, Outcome] = {
    _Dismiss.RESULT_OK: "done",
    _Dismiss.RESULT_UNKNOWN_ID: "gone",
    _Dismiss.RESULT_BUSY: "busy",
    _Dismiss.RESULT_NOT_READY: "busy",
}
_OUTCOMES: Mapping[Phase, Mapping[int, Outcome]] = {
    "asking": _LABELS,
    "fetching": _IMAGES,
    "submitting": _LEARNING,
    "learning": _LEARNING,
    "dismissing": _DISMISSING,
}


def answer_from(phase: Phase, service: str, response: Any) -> Answer:
    """The answer of the service that a phase asks; None for a response that did not come."""
    if response is None:
        return Answer("failed", f"{service} did not answer in time")
    outcome = _OUTCOMES[phase].get(response.result, "failed")
    message = response.message
    if phase == "asking":
        found = [Candidate(c.label, float(c.confidence), c.provider) for c in response.candidates]
        # When time was up, what had arrived is enough.
        return Answer("done" if found else outcome, message, found)
    if phase == "fetching":
        files = [image.file for image in response.images]
        return Answer("done" if files else outcome, message, (), response.collection, files)
    return Answer(outcome, message, job=getattr(response, "job_id", ""))


def absent(service: str) -> Answer:
    """There is nobody to ask."""
    return Answer("away", f"{service} is not there")
