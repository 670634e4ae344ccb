# SPDX-License-Identifier: Apache-2.0
"""`curator`: asks what unknown objects are, and has learned what a person confirms."""

import functools
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from sensor_msgs.msg import CompressedImage

from newfound_core.errors import KnowledgeError
from newfound_msgs import msg
from newfound_msgs.srv import ConfirmLabel
from newfound_nodes.curation.parameters import PARAMETERS
from newfound_nodes.curation.proposal import CurationRules, Evidence, Proposal, ProposalState
from newfound_nodes.curation.proposal_queue import ProposalQueue, QuestionBudget, RetryPolicy
from newfound_nodes.curation.services import ServiceClients, answer_from, service_absent
from newfound_runtime.managed_node import LATCHED, LoadError, ManagedNode, Status
from newfound_runtime.services import RequestError, answering

MOST_VIEWS, MOST_OBJECTS = 5, 200  # views of an object that vote, and objects they are kept of
_TICK = 0.25  # s between two checks of what is due
_DECISIONS = {
    ConfirmLabel.Request.DECISION_CONFIRM: "confirm",
    ConfirmLabel.Request.DECISION_CORRECT: "correct",
    ConfirmLabel.Request.DECISION_DISMISS: "dismiss",
    ConfirmLabel.Request.DECISION_REFUSE: "refuse",
}
_FROM_DETECTOR: Mapping[int, ProposalState] = {
    msg.UnknownObject.STATE_LEARNING: ProposalState.LEARNING,
    msg.UnknownObject.STATE_LEARNED: ProposalState.LEARNED,
    msg.UnknownObject.STATE_DISMISSED: ProposalState.DISMISSED,
    msg.UnknownObject.STATE_EXPIRED: ProposalState.EXPIRED,
}


class Curator(ManagedNode):
    """Brings unknown objects, web_query, a person and the detector together.

    No callback waits for anything: services are called asynchronously.
    """

    NAME = "curator"
    PARAMETERS = PARAMETERS
    OUTPUTS: ClassVar = {
        "proposals": (msg.LabelProposals, LATCHED),
        "status": (msg.LabelProposal, 50),
    }

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self.proposals: ProposalQueue | None = None
        self._service_clients: ServiceClients | None = None
        self._detector_topics: list[Any] = []  # subscriptions
        self._timer: Any = None
        self._more_views: dict[str, list[bytes]] = {}  # of waiting objects, besides the best
        super().__init__(name, **node_arguments)
        self._group = ReentrantCallbackGroup()
        deciding = MutuallyExclusiveCallbackGroup()
        self.create_service(
            ConfirmLabel,
            "~/confirm_label",
            answering(self, self._confirm_label),
            callback_group=deciding,
        )

    # Lifecycle.

    def load(self) -> None:
        """Read what was under way."""
        try:
            self.proposals = ProposalQueue(
                self._state_folder(),
                self._rules(),
                self._retry_policy(),
                self._proposal_changed,
                budget=self._budget(),
            )
        except (KnowledgeError, OSError) as error:
            raise LoadError(" ".join(str(error).split())) from error
        for warning in self.proposals.warnings:
            self.get_logger().error(warning)
        self._service_clients = ServiceClients(self, self._group)

    def activated(self) -> None:
        """Subscribe to the detector, and continue what was under way."""
        detector, group = self.param("detector"), MutuallyExclusiveCallbackGroup()
        self._detector_topics = [
            self.create_subscription(
                kind, f"{detector}/{topic}", callback, profile, callback_group=group
            )
            for kind, topic, callback, profile in (
                (msg.UnknownObject, "unknowns", self._on_unknown, 100),
                (msg.LearningStatus, ProposalState.LEARNING, self._on_job, 100),
                (msg.KnowledgeBase, "knowledge", self._on_knowledge, LATCHED),
            )
        ]
        self._timer = self.create_timer(_TICK, self._call_services, callback_group=group)
        self._publish_proposals()

    def deactivated(self) -> None:
        """Stop; a request under way is made again later."""
        if self._timer is not None:
            self.destroy_timer(self._timer)
        for subscription in self._detector_topics:
            self.destroy_subscription(subscription)
        self._detector_topics, self._timer = [], None
        if self._service_clients is not None and self.proposals is not None:
            self._service_clients.drop()
            self.proposals.reset_steps()

    def unload(self) -> None:
        """Release the folder."""
        if self._service_clients is not None:
            self._service_clients.destroy()
        if self.proposals is not None:
            self.proposals.close()
        self.proposals = self._service_clients = None

    def parameters_changed(self, names: set[str]) -> None:
        """Rules hold for the next step."""
        if self.proposals is not None:
            self.proposals.rules, self.proposals.budget = self._rules(), self._budget()

    # Subscriptions and the service.

    def _on_unknown(self, message: msg.UnknownObject) -> None:
        if self.proposals is not None:
            take_unknown(self.proposals, message)
            waits = message.state == msg.UnknownObject.STATE_WAITING
            if waits and len(self._more_views) < MOST_OBJECTS:
                views = [bytes(view.data) for view in message.crops[1:MOST_VIEWS]]
                self._more_views[message.id] = views
            elif not waits:
                self._more_views.pop(message.id, None)

    def _on_knowledge(self, message: msg.KnowledgeBase) -> None:
        if self.proposals is not None:
            self.proposals.set_known([known.label for known in message.classes])

    def _on_job(self, message: msg.LearningStatus) -> None:
        if self.proposals is None:
            return
        final = message.state >= msg.LearningStatus.STATE_DONE
        learned = message.state == msg.LearningStatus.STATE_DONE if final else None
        ours = self.proposals.job_changed(message.job_id, message.label, learned, message.message)
        if ours is not None and not final:
            crop = self.proposals.crop(ours.id)
            self.publish("status", proposal_message(ours, message.progress, crop))

    def _confirm_label(self, request: ConfirmLabel.Request, response: Any) -> None:
        if self.proposals is None or self.state() != State.PRIMARY_STATE_ACTIVE:
            raise RequestError("NOT_READY", "the node is not active")
        if request.decision not in _DECISIONS:
            raise RequestError("INVALID_DECISION", f"there is no decision {request.decision}")
        decision = _DECISIONS[request.decision]
        response.label = self.proposals.decide(
            request.unknown_id, decision, request.label, extend=request.extend
        )

    # Steps.

    def _call_services(self) -> None:
        """Ask the services for what is due."""
        proposals, services = self.proposals, self._service_clients
        if proposals is None or services is None or self.state() != State.PRIMARY_STATE_ACTIVE:
            return
        services.expire()
        for step in proposals.due():
            name = services.name(step.state)
            if services.ready(step.state):
                taken = functools.partial(self._take, proposals, step, name)
                views = [proposals.crop(step.id), *self._more_views.get(step.id, ())]
                services.call(step, views, proposals.known(), taken)
            else:
                proposals.finished(step, service_absent(name))

    def _take(self, proposals: ProposalQueue, step: Proposal, service: str, response: Any) -> None:
        proposals.finished(step, answer_from(step.state, service, response))

    def _proposal_changed(self, proposal: Proposal) -> None:
        """From any thread, in the order of the changes."""
        label = f" {proposal.label!r}" if proposal.label else ""
        note = f": {' '.join(proposal.message.split())}" if proposal.message else ""
        self.get_logger().info(f"{proposal.id} {proposal.state}{label}{note}")
        crop = self.proposals.crop(proposal.id) if self.proposals is not None else b""
        self.publish("status", proposal_message(proposal, crop=crop))
        self._publish_proposals()

    def _publish_proposals(self) -> None:
        if self.proposals is not None:
            now = self.get_clock().now().to_msg()
            queue = self.proposals
            message = proposals_message(now, queue.open(), queue.crop, queue.backlog())
            self.publish("proposals", message)

    # Diagnostics.

    def health(self) -> Status:
        """Errors of the disk, or services that are missing."""
        assert self.proposals is not None
        if self.proposals.storage_error:
            return DiagnosticStatus.ERROR, self.proposals.storage_error, {}
        clients = self._service_clients
        missing = clients.missing(self.proposals.open()) if clients is not None else []
        if missing:
            return DiagnosticStatus.WARN, f"services missing: {', '.join(missing)}", {}
        waiting = sum(p.state == ProposalState.WAITING for p in self.proposals.open())
        text = f"{waiting} objects wait for a person" if waiting else "nothing waits for a person"
        return DiagnosticStatus.OK, text, {}

    def diagnose(self) -> Mapping[str, object]:
        """Proposals by their state."""
        if self.proposals is None:
            return {}
        states = Counter(str(proposal.state) for proposal in self.proposals.all())
        return {**states, "ignored": self.proposals.ignored, "folder": self.proposals.folder}

    # From parameters.

    def _rules(self) -> CurationRules:
        return CurationRules(
            attempts=self.param("attempts"),
            auto_confirm=self.param("auto_confirm"),
            fetch=self.param("fetch_images") > 0,
        )

    def _retry_policy(self) -> RetryPolicy:
        return RetryPolicy(
            delay=self.param("retry_delay"),
            max_delay=self.param("max_retry_delay"),
            status_timeout=self.param("status_timeout"),
        )

    def _budget(self) -> QuestionBudget:
        return QuestionBudget(
            per_minute=self.param("questions_per_minute"),
            max_open=self.param("max_open_questions"),
            delay=self.param("question_delay"),
        )

    def _state_folder(self) -> Path:
        home = Path(os.environ.get("ROS_HOME") or "~/.ros").expanduser()
        default = home / "newfound" / self.get_fully_qualified_name().strip("/")
        return Path(self.param("state_folder") or default).expanduser()


def proposal_message(
    proposal: Proposal, progress: float = 0.0, crop: bytes = b""
) -> msg.LabelProposal:
    """One proposal, with the view of the object if there is one to show."""
    picture = CompressedImage(format="jpeg" if crop else "", data=crop)
    candidates = [
        msg.LabelCandidate(
            label=c.label, confidence=c.confidence, provider=c.provider, span_share=c.span_share
        )
        for c in proposal.candidates
    ]
    return msg.LabelProposal(
        stamp=_time(proposal.since),
        unknown_id=proposal.id,
        state=getattr(msg.LabelProposal, f"STATE_{proposal.state.upper()}"),
        candidates=candidates,
        label=proposal.label,
        decided_by=proposal.decided_by,
        images=len(proposal.files),
        job_id=proposal.job,
        progress=1.0 if proposal.state == ProposalState.LEARNED else progress,
        crop=picture,
        priority=proposal.evidence.priority,
        message=proposal.message,
    )


def take_unknown(queue: ProposalQueue, message: msg.UnknownObject) -> None:
    """Tell a queue what the detector says of an unknown object."""
    if message.state == msg.UnknownObject.STATE_WAITING:
        crop = bytes(message.crops[0].data) if message.crops else b""
        queue.announced(message.id, crop, evidence_from(message))
    elif message.state == msg.UnknownObject.STATE_MERGED:
        queue.unknown_merged(message.id, message.merged_into)
    elif message.state in _FROM_DETECTOR:
        queue.unknown_changed(message.id, _FROM_DETECTOR[message.state], message.label)


def evidence_from(message: msg.UnknownObject) -> Evidence:
    """What the detector says of an object; nonsense of another detector does no harm."""
    stability = float(message.stability)
    return Evidence(
        message.sightings,
        math.sqrt(message.region.width * message.region.height),
        min(1.0, max(0.0, stability)) if math.isfinite(stability) else 0.0,
    )


def proposals_message(
    stamp: Time,
    proposals: Sequence[Proposal],
    crop: Callable[[str], bytes],
    backlog: Sequence[Proposal],
) -> msg.LabelProposals:
    """All that are under way, and the ids of those that wait."""
    found = [proposal_message(proposal, crop=crop(proposal.id)) for proposal in proposals]
    return msg.LabelProposals(
        stamp=stamp,
        proposals=found,
        waiting=len(backlog),
        backlog=[proposal.id for proposal in backlog],
        backlog_priorities=[proposal.evidence.priority for proposal in backlog],
    )


def _time(seconds: float) -> Time:
    return Time(sec=int(seconds), nanosec=int(seconds % 1 * 1e9))
