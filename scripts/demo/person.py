# SPDX-License-Identifier: Apache-2.0
"""The person at the robot: knows the truth, and answers what the curator asks."""

from collections.abc import Callable

from newfound_msgs.msg import LabelProposal
from newfound_msgs.srv import ConfirmLabel
from scripts.demo.judging import true_label
from scripts.demo.stamps import stamp
from scripts.demo.witness import DemoError, Witness

_Ask = ConfirmLabel.Request
_MOST_TRIES = 2  # at learning one object
_THINKING = 20.0  # s; meanwhile the robot sees more of the thing


class Person:
    """Confirms or corrects what is new to the robot, and dismisses what it should have known."""

    def __init__(self, witness: Witness, say: Callable[[str], None]) -> None:
        self._witness, self._say = witness, say
        self._known = {known.label for known in witness.knowledge[0].message.classes}
        self._asked: dict[str, int] = {}
        self._since: dict[str, float] = {}  # when a question was first heard
        self.decided: dict[str, tuple[float, str]] = {}  # when, and what was said, by label

    def attend(self) -> None:
        """Answer every question that is open."""
        if not self._witness.proposals:
            return
        for proposal in self._witness.proposals[-1].message.proposals:
            if proposal.state == LabelProposal.STATE_WAITING:
                self._answer(proposal)

    def _answer(self, proposal: LabelProposal) -> None:
        since = self._since.setdefault(proposal.unknown_id, self._witness.now())
        truth = self._truth(proposal.unknown_id)
        if truth is None or self._witness.now() < since + _THINKING:
            return
        self._asked[proposal.unknown_id] = self._asked.get(proposal.unknown_id, 0) + 1
        if self._asked[proposal.unknown_id] > _MOST_TRIES:
            raise DemoError(f"the {truth} could not be learned: {proposal.message}")
        said = proposal.candidates[0].label if proposal.candidates else ""
        if not truth or truth in self._known or truth in self.decided:
            what = f"a {truth}, which it should know" if truth else "nothing in particular"
            self._say(f"a person dismisses {proposal.unknown_id}: that is {what}")
            self._witness.decide(proposal.unknown_id, _Ask.DECISION_DISMISS)
            return
        if said == truth:
            self._say(f'"is this a {said}?" a person confirms')
            answer = self._witness.decide(proposal.unknown_id, _Ask.DECISION_CONFIRM)
        else:
            self._say(f'"is this a {said or "?"}?" a person corrects: a {truth}')
            answer = self._witness.decide(proposal.unknown_id, _Ask.DECISION_CORRECT, truth)
        if answer.result not in (answer.RESULT_OK, answer.RESULT_ALREADY_DECIDED):
            raise DemoError(f"the curator refused the decision: {answer.message}")
        self.decided[truth] = (self._witness.now(), "confirmed" if said == truth else "corrected")

    def _truth(self, unknown_id: str) -> str | None:
        """What an unknown object is; None while the truth about it has not come."""
        for heard in reversed(self._witness.unknowns):
            truth = self._witness.truths.get(stamp(heard.message))
            if heard.message.id == unknown_id and truth is not None:
                return true_label(heard.message.region, truth)
        return None
