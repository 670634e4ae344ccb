# SPDX-License-Identifier: Apache-2.0
"""What a person says about a proposal, checked: every refusal has a code and a reason."""

from newfound_core.knowledge.labels import problem_with_label
from newfound_nodes.curation.proposal import Proposal


class RefusedError(Exception):
    """A decision that cannot be taken; `code` is the name of a RESULT_ constant."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def label_of(present: Proposal, decision: str, label: str) -> str:
    """What a person says that it is; raises RefusedError."""
    if decision == "confirm":
        if not present.candidates:
            reason = "no label is proposed: give one with DECISION_CORRECT"
            raise RefusedError("INVALID_LABEL", reason)
        proposed = present.candidates[0].label
        if label not in ("", proposed):
            reason = f"{proposed!r} is proposed: give another label with DECISION_CORRECT"
            raise RefusedError("INVALID_DECISION", reason)
        label = proposed
    problem = problem_with_label(label)
    if problem:
        raise RefusedError("INVALID_LABEL", problem)
    return label
