# SPDX-License-Identifier: Apache-2.0
"""What a detector and its curator say: knowledge, questions, learning jobs, unknown objects.

Knowledge, questions and jobs are small and listened to while any browser is open; unknown objects
come with views and are listened to while a page shows them.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from newfound_console.bridge import Bridge, Subscriptions, Wanted
from newfound_console.live import number
from newfound_console.pictures import Pictures
from newfound_core.knowledge.labels import same_label
from newfound_msgs import msg
from newfound_runtime.managed_node import LATCHED

MAX_UNKNOWNS = 600  # remembered with their views
MAX_CARDS = 120  # on the page; the others are counted
MAX_FINISHED = 8  # that were learned or dismissed a while ago
FINISHED_FOR = 900.0  # s for which they are shown
MAX_JOBS = 30
_States = msg.LabelProposal
STATES = {
    _States.STATE_ASKING: "asking",
    _States.STATE_WAITING: "waiting",
    _States.STATE_FETCHING: "fetching",
    _States.STATE_SUBMITTING: "submitting",
    _States.STATE_LEARNING: "learning",
    _States.STATE_DISMISSING: "dismissing",
    _States.STATE_BACKLOG: "backlog",
    _States.STATE_LEARNED: "learned",
    _States.STATE_DISMISSED: "dismissed",
    _States.STATE_EXPIRED: "expired",
    _States.STATE_MERGED: "merged",
}
_UNKNOWN_STATES = {
    msg.UnknownObject.STATE_WAITING: "waiting",
    msg.UnknownObject.STATE_LEARNING: "learning",
}
JOB_STATES = {
    getattr(msg.LearningStatus, name): name.removeprefix("STATE_").lower()
    for name in dir(msg.LearningStatus)
    if name.startswith("STATE_")
}


class DetectorState:
    """One detector, with its curator if it has one; `on_change` says that something is new."""

    def __init__(
        self, bridge: Bridge, name: str, pictures: Pictures, on_change: Callable[[], None]
    ) -> None:
        self._bridge, self.name, self._pictures = bridge, name, pictures
        self._on_change = on_change
        self._subscriptions = Subscriptions(bridge)
        self.curator = ""
        self.knowledge: msg.KnowledgeBase | None = None
        self._proposals: msg.LabelProposals | None = None
        self._cards: dict[str, dict[str, Any]] = {}  # of the proposals, as the page shows them
        self._unknowns: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._finished: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.jobs: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._with_unknowns = False

    def listen(self, curator: str, unknowns: bool) -> None:
        """Follow the detector and this curator; with or without unknown objects."""
        if curator != self.curator:
            self._proposals, self._cards = None, {}
        self.curator, self._with_unknowns = curator, unknowns
        topics: list[Wanted] = [
            (msg.KnowledgeBase, f"{self.name}/knowledge", self._on_knowledge, LATCHED),
            (msg.LearningStatus, f"{self.name}/learning", self._on_job, 50),
        ]
        if curator:
            topics.append((msg.LabelProposals, f"{curator}/proposals", self._on_list, LATCHED))
            topics.append((msg.LabelProposal, f"{curator}/status", self._on_proposal, 50))
        if unknowns:
            topics.append((msg.UnknownObject, f"{self.name}/unknowns", self._on_unknown, 100))
        self._subscriptions.want({wanted[1]: wanted for wanted in topics})
        if not unknowns:
            self._unknowns.clear()

    def close(self) -> None:
        """Listen no more."""
        self._subscriptions.close()

    # Messages.

    def _on_knowledge(self, message: msg.KnowledgeBase) -> None:
        self.knowledge = message
        self._on_change()

    def _on_job(self, message: msg.LearningStatus) -> None:
        state = JOB_STATES.get(message.state, "")
        self.jobs[message.job_id] = {
            "job": message.job_id,
            "label": message.label,
            "state": state,
            "progress": number(message.progress),
            "remaining": number(message.remaining_seconds),
            "message": message.message,
            "final": message.state >= msg.LearningStatus.STATE_DONE,
            "version": message.knowledge_version,
            "at": time.time(),
        }
        self.jobs.move_to_end(message.job_id)
        while len(self.jobs) > MAX_JOBS:
            self.jobs.popitem(last=False)
        self._on_change()

    def _on_list(self, message: msg.LabelProposals) -> None:
        self._proposals = message
        shown = message.proposals[:MAX_CARDS]
        self._cards = {each.unknown_id: self._card(each) for each in shown}
        self._on_change()

    def _on_proposal(self, message: msg.LabelProposal) -> None:
        card = self._card(message)
        if message.state >= _States.STATE_LEARNED:
            before = self._cards.pop(message.unknown_id, None)
            seen = self._unknowns.pop(message.unknown_id, None)
            pictures = (before or {}).get("views") or (seen or {}).get("views") or []
            if message.state in (_States.STATE_LEARNED, _States.STATE_DISMISSED):
                self._finish({**card, "views": pictures, "at": time.time()})
        elif message.unknown_id in self._cards:
            self._cards[message.unknown_id] = card
        self._on_change()

    def _on_unknown(self, message: msg.UnknownObject) -> None:
        state = _UNKNOWN_STATES.get(message.state)
        if state is None:
            gone = self._unknowns.pop(message.id, None)
            if gone and not self.curator and message.state == msg.UnknownObject.STATE_LEARNED:
                learned = {"state": "learned", "label": message.label, "at": time.time()}
                self._finish({**gone, **learned})
            self._on_change()
            return
        self._unknowns[message.id] = {
            "id": message.id,
            "state": state,
            "label": message.label,
            "views": [self._pictures.add(bytes(crop.data)) for crop in message.crops[:4]],
            "sightings": message.sightings,
            "nearest": message.nearest_label,
            "seen": message.last_seen.sec,
        }
        self._unknowns.move_to_end(message.id)
        while len(self._unknowns) > MAX_UNKNOWNS:
            self._unknowns.popitem(last=False)
        self._on_change()

    def _card(self, message: msg.LabelProposal) -> dict[str, Any]:
        return {
            "id": message.unknown_id,
            "state": STATES.get(message.state, ""),
            "candidates": [
                {"label": c.label, "confidence": number(c.confidence), "provider": c.provider}
                for c in message.candidates[:5]
            ],
            "label": message.label,
            "by": message.decided_by,
            "job": message.job_id,
            "progress": number(message.progress),
            "views": [self._pictures.add(bytes(message.crop.data))] if message.crop.data else [],
            "message": message.message,
            "priority": number(message.priority),
        }

    def _finish(self, card: dict[str, Any]) -> None:
        self._finished[card["id"]] = card
        self._finished.move_to_end(card["id"])
        while len(self._finished) > MAX_FINISHED:
            self._finished.popitem(last=False)

    # For the page.

    @property
    def labels(self) -> list[str]:
        """What is known."""
        return [known.label for known in self.knowledge.classes] if self.knowledge else []

    def known_label(self, label: str) -> str | None:
        """The known class of a name, which the page shows without underscores."""
        names = [label, label.replace(" ", "_")]
        return next((own for n in names for own in self.labels if same_label(own, n)), None)

    def suggested(self, unknown_id: str) -> str:
        """The first name that is proposed for an unknown thing."""
        candidates = self._cards.get(unknown_id, {}).get("candidates", [])
        return candidates[0]["label"] if candidates else ""

    def waiting(self) -> int:
        """How many things wait for a person now."""
        if self.curator:
            cards = self._cards.values()
            return sum(card["state"] in ("asking", "waiting") for card in cards)
        return sum(card["state"] == "waiting" for card in self._unknowns.values())

    def inbox(self) -> dict[str, Any]:
        """Cards, the most urgent first, and how much is not shown."""
        cards = [self._joined(card) for card in self._cards.values()]
        backlog = list(self._proposals.backlog) if self._proposals else []
        extra = [i for i in backlog if i in self._unknowns] if self.curator else self._unknowns
        for unknown_id in list(extra)[: MAX_CARDS - len(cards)]:
            card = {"candidates": [], **self._unknowns[unknown_id]}
            cards.append(card | ({"state": "backlog"} if self.curator else {}))
        total = len(self._proposals.proposals) if self._proposals else 0
        total += len(backlog) if self.curator else len(self._unknowns)
        now = time.time()
        finished = [c for c in reversed(self._finished.values()) if now - c["at"] < FINISHED_FOR]
        return {
            "cards": [self._with_job(card) for card in cards],
            "hidden": max(0, total - len(cards)),
            "backlog": len(backlog),
            "finished": [self._with_change(card) for card in finished],
            "labels": self.labels,
            "version": self.knowledge.version if self.knowledge else 0,
            "curator": bool(self.curator),
        }

    def _joined(self, card: dict[str, Any]) -> dict[str, Any]:
        seen = self._unknowns.get(card["id"])
        if seen is None:
            return card
        views = list(dict.fromkeys([*card["views"], *filter(None, seen["views"])]))
        facts = {key: seen[key] for key in ("sightings", "nearest", "seen")}
        return {**card, **facts, "views": views[:4]}

    def _with_change(self, card: dict[str, Any]) -> dict[str, Any]:
        """Whether learning it is the last change, and whether a later one took it back."""
        if card["state"] != "learned" or self.knowledge is None:
            return card
        done = (j for j in self.jobs.values() if j["state"] == "done")
        made = max((j["version"] for j in done if j["label"] == card["label"]), default=0)
        later = 0 < made < self.knowledge.version
        return {
            **card,
            "last": made == self.knowledge.version,
            "gone": later and card["label"] not in self.labels,
        }

    def _with_job(self, card: dict[str, Any]) -> dict[str, Any]:
        if card["state"] != "learning":
            return card
        open_jobs = [job for job in self.jobs.values() if not job["final"]]
        ours = [j for j in open_jobs if j["job"] == card.get("job") or j["label"] == card["label"]]
        return (
            {**card, **{k: ours[-1][k] for k in ("job", "progress", "remaining")}}
            if ours
            else card
        )

    def summary(self) -> dict[str, Any]:
        """Knowledge and jobs, for every page."""
        known = self.knowledge
        return {
            "version": known.version if known else 0,
            "method": known.method if known else "",
            "labels": self.labels,
            "restorable": list(known.restorable_versions) if known else [],
            "memory": [known.memory_size, known.memory_limit] if known else [0, 0],
            "classes": [
                {
                    "label": each.label,
                    "learned_here": each.origin == msg.KnownClass.ORIGIN_LEARNED,
                    "examples": each.exemplars,
                    "since": each.since_version,
                    "learned": each.learned.sec,
                }
                for each in (known.classes if known else [])
            ],
            "jobs": list(self.jobs.values()),
        }
