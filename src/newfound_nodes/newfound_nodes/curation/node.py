# SPDX-License-Identifier: Apache-2.0
"""`curator`: asks what unknown objects are, and has learned what a person confirms."""

import functools
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup

from newfound_core.errors import KnowledgeError
from newfound_msgs import msg
from newfound_msgs.srv import ConfirmLabel
from newfound_nodes.curation.answers import absent, answer_from
from newfound_nodes.curation.decision import RefusedError
from newfound_nodes.curation.desk import Desk, Patience
from newfound_nodes.curation.messages import proposal_message, proposals_message
from newfound_nodes.curation.parameters import PARAMETERS
from newfound_nodes.curation.proposal import Phase, Proposal, Rules
from newfound_nodes.curation.services import Services
from newfound_runtime.container import run
from newfound_runtime.managed_node import LoadError, ManagedNode, Status
from newfound_runtime.qos import LATCHED

_TICK = 0.25  # s between two looks at what is due
_DECISIONS = {
    ConfirmLabel.Request.DECISION_CONFIRM: "confirm",
    ConfirmLabel.Request.DECISION_CORRECT: "correct",
    ConfirmLabel.Request.DECISION_DISMISS: "dismiss",
}
_ELSEWHERE: Mapping[int, Phase] = {
    msg.UnknownObject.STATE_LEARNING: "learning",
    msg.UnknownObject.STATE_LEARNED: "learned",
    msg.UnknownObject.STATE_DISMISSED: "dismissed",
    msg.UnknownObject.STATE_EXPIRED: "expired",
}


class Curator(ManagedNode):
    """Brings unknown objects, web_query, a person and the detector together.

    No callback waits for anything: services are asked, and their answers taken when they come.
    """

    NAME = "curator"
    PARAMETERS = PARAMETERS
    OUTPUTS: ClassVar = {
        "proposals": (msg.LabelProposals, LATCHED),
        "status": (msg.LabelProposal, 50),
    }

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self.desk: Desk | None = None
        self._others: Services | None = None
        self._ears: list[Any] = []  # subscriptions
        self._timer: Any = None
        super().__init__(name, **node_arguments)
        self._group = ReentrantCallbackGroup()
        deciding = MutuallyExclusiveCallbackGroup()
        self.create_service(
            ConfirmLabel, "~/confirm_label", self._confirm_label, callback_group=deciding
        )

    # Life.

    def load(self) -> None:
        """Read what was under way."""
        try:
            self.desk = Desk(
                self._state_folder(), self._rules(), self._patience(), self._proposal_changed
            )
        except (KnowledgeError, OSError) as error:
            raise LoadError(" ".join(str(error).split())) from error
        for complaint in self.desk.complaints:
            self.get_logger().error(complaint)
        self._others = Services(self, self._group)

    def activated(self) -> None:
        """Listen to the detector, and go on with what was under way."""
        detector, group = self.param("detector"), MutuallyExclusiveCallbackGroup()
        self._ears = [
            self.create_subscription(
                kind, f"{detector}/{topic}", hear, profile, callback_group=group
            )
            for kind, topic, hear, profile in (
                (msg.UnknownObject, "unknowns", self._hear_unknown, 100),
                (msg.LearningStatus, "learning", self._hear_job, 100),
                (msg.KnowledgeBase, "knowledge", self._hear_knowledge, LATCHED),
            )
        ]
        self._timer = self.create_timer(_TICK, self._look_after, callback_group=group)
        self._publish_proposals()

    def deactivated(self) -> None:
        """Hear and ask no more; what is under way is asked again later."""
        if self._timer is not None:
            self.destroy_timer(self._timer)
        for ear in self._ears:
            self.destroy_subscription(ear)
        self._ears, self._timer = [], None
        if self._others is not None and self.desk is not None:
            self._others.forget()
            self.desk.interrupted()

    def unload(self) -> None:
        """Let another node have the folder."""
        if self._others is not None:
            self._others.destroy()
        if self.desk is not None:
            self.desk.close()
        self.desk = self._others = None

    def parameters_changed(self, names: set[str]) -> None:
        """Rules hold for the next step."""
        if self.desk is not None:
            self.desk.rules = self._rules()

    # What is heard.

    def _hear_unknown(self, message: msg.UnknownObject) -> None:
        if self.desk is None:
            return
        if message.state == msg.UnknownObject.STATE_WAITING:
            crop = bytes(message.crops[0].data) if message.crops else b""
            self.desk.announced(message.id, crop)
        elif message.state in _ELSEWHERE:
            self.desk.named_elsewhere(message.id, _ELSEWHERE[message.state], message.label)

    def _hear_knowledge(self, message: msg.KnowledgeBase) -> None:
        if self.desk is not None:
            self.desk.knows([known.label for known in message.classes])

    def _hear_job(self, message: msg.LearningStatus) -> None:
        if self.desk is None:
            return
        final = message.stage >= msg.LearningStatus.STAGE_DONE
        learned = message.stage == msg.LearningStatus.STAGE_DONE if final else None
        ours = self.desk.job_told(message.job_id, message.label, learned, message.message)
        if ours is not None and not final:
            crop = self.desk.crop(ours.id)
            self.publish("status", proposal_message(ours, message.progress, crop))

    def _confirm_label(
        self, request: ConfirmLabel.Request, response: ConfirmLabel.Response
    ) -> ConfirmLabel.Response:
        try:
            if self.desk is None or self.state() != State.PRIMARY_STATE_ACTIVE:
                raise RefusedError("NOT_READY", "the node is not active")
            if request.decision not in _DECISIONS:
                raise RefusedError("INVALID_DECISION", f"there is no decision {request.decision}")
            decision = _DECISIONS[request.decision]
            response.label = self.desk.decide(request.unknown_id, decision, request.label)
        except RefusedError as refused:
            response.result = getattr(response, f"RESULT_{refused.code}")
            response.message = str(refused)
        except Exception as error:
            self.log_traceback("confirm_label failed")
            response.result = response.RESULT_INTERNAL
            response.message = f"{type(error).__name__}: {error}"
        return response

    # What is done.

    def _look_after(self) -> None:
        """Ask the services for what is due."""
        desk, services = self.desk, self._others
        if desk is None or services is None or self.state() != State.PRIMARY_STATE_ACTIVE:
            return
        services.expire()
        for step in desk.due():
            name = services.name(step.phase)
            if services.ready(step.phase):
                taken = functools.partial(self._take, desk, step, name)
                services.ask(step, desk.crop(step.id), taken)
            else:
                desk.finished(step, absent(name))

    def _take(self, desk: Desk, step: Proposal, service: str, response: Any) -> None:
        desk.finished(step, answer_from(step.phase, service, response))

    def _proposal_changed(self, proposal: Proposal) -> None:
        """From any thread, in the order of the changes."""
        label = f" {proposal.label!r}" if proposal.label else ""
        note = f": {' '.join(proposal.message.split())}" if proposal.message else ""
        self.get_logger().info(f"{proposal.id} {proposal.phase}{label}{note}")
        crop = self.desk.crop(proposal.id) if self.desk is not None else b""
        self.publish("status", proposal_message(proposal, crop=crop))
        self._publish_proposals()

    def _publish_proposals(self) -> None:
        if self.desk is not None:
            now = self.get_clock().now().to_msg()
            message = proposals_message(now, self.desk.open(), self.desk.crop)
            self.publish("proposals", message)

    # How things are.

    def health(self) -> Status:
        """Trouble with the disk, or somebody who is missed."""
        assert self.desk is not None
        if self.desk.trouble:
            return DiagnosticStatus.ERROR, self.desk.trouble, {}
        missed = self._others.missed(self.desk.open()) if self._others is not None else []
        if missed:
            return DiagnosticStatus.WARN, f"not there: {', '.join(missed)}", {}
        waiting = sum(p.phase == "waiting" for p in self.desk.open())
        text = f"{waiting} objects wait for a person" if waiting else "nothing waits for a person"
        return DiagnosticStatus.OK, text, {}

    def diagnose(self) -> Mapping[str, object]:
        """Proposals by their phase."""
        if self.desk is None:
            return {}
        phases = Counter(proposal.phase for proposal in self.desk.all())
        return {**phases, "turned_away": self.desk.turned_away, "folder": self.desk.folder}

    # From parameters.

    def _rules(self) -> Rules:
        return Rules(
            attempts=self.param("attempts"),
            auto_confirm=self.param("auto_confirm"),
            fetch=self.param("fetch_images") > 0,
        )

    def _patience(self) -> Patience:
        names = ("first_wait", "longest_wait", "silence", "max_open")
        return Patience(**{name: self.param(name) for name in names})

    def _state_folder(self) -> Path:
        home = Path(os.environ.get("ROS_HOME") or "~/.ros").expanduser()
        default = home / "newfound" / self.get_fully_qualified_name().strip("/")
        return Path(self.param("state_folder") or default).expanduser()


def main() -> int:
    """Run it until Ctrl-C."""
    return run(Curator)


if __name__ == "__main__":
    sys.exit(main())
