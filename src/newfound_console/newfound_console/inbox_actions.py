# SPDX-License-Identifier: Apache-2.0
"""What an operator does in the inbox, each as a call of a node's service."""

from typing import Any

from newfound_console.bridge import CallError
from newfound_console.console import Console
from newfound_console.requests import Action, BadRequestError, node, text, texts
from newfound_msgs import srv


class InboxActions:
    """Name, dismiss, merge, cancel."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def all(self) -> dict[str, Action]:
        """By the names that the page uses."""
        return {"name": self.name, "dismiss": self.dismiss, "refuse": self.refuse,
                "merge": self.merge, "cancel": self.cancel}  # fmt: skip

    async def name(self, body: dict[str, Any]) -> Any:
        """Say what unknown things are: one label for all of them, or each its first candidate."""
        detector, ids = node(body, "detector"), texts(body, "ids")
        label = text(body, "label", "")
        if len(ids) > 1 and label:
            ids = [await self._merge(detector, ids)]
        failed = {}
        for each in ids:
            try:
                await self._name(detector, each, label)
            except CallError as error:
                failed[each] = str(error)
        if len(failed) == len(ids):
            raise CallError(next(iter(failed.values())))
        return {"done": len(ids) - len(failed), "failed": failed}

    async def _name(self, detector: str, unknown_id: str, label: str) -> None:
        state = self._console.detectors.get(detector)
        call = self._console.bridge.call
        wanted = label or (state.suggested(unknown_id) if state is not None else "")
        known = state.known_label(wanted) if state is not None and wanted else None
        extend = known is not None  # it gets these views
        if known not in (None, wanted):
            label = known
        if state is not None and state.curator:
            kind = srv.ConfirmLabel
            request = kind.Request(unknown_id=unknown_id, label=label, extend=extend)
            decisions = kind.Request
            request.decision = decisions.DECISION_CORRECT if label else decisions.DECISION_CONFIRM
            await call(kind, f"{state.curator}/confirm_label", request)
        elif not label:
            raise CallError("nobody has proposed a name for it: please type one")
        else:
            learn = srv.AddUnknownClass
            request = learn.Request(label=label, unknown_id=unknown_id, extend=extend)
            await call(learn, f"{detector}/add_unknown_class", request)

    async def dismiss(self, body: dict[str, Any]) -> Any:
        """Do not ask about these again."""
        detector, ids = node(body, "detector"), texts(body, "ids")
        state = self._console.detectors.get(detector)
        failed = {}
        for each in ids:
            try:
                if state is not None and state.curator:
                    kind: Any = srv.ConfirmLabel
                    request = kind.Request(unknown_id=each, decision=kind.Request.DECISION_DISMISS)
                    await self._console.bridge.call(
                        kind, f"{state.curator}/confirm_label", request
                    )
                else:
                    kind = srv.DismissUnknown
                    request = kind.Request(unknown_id=each)
                    await self._console.bridge.call(kind, f"{detector}/dismiss_unknown", request)
            except CallError as error:
                failed[each] = str(error)
        if len(failed) == len(ids):
            raise CallError(next(iter(failed.values())))
        return {"done": len(ids) - len(failed), "failed": failed}

    async def refuse(self, body: dict[str, Any]) -> Any:
        """It is none of the names that were proposed: look for others."""
        state = self._console.detectors.get(node(body, "detector"))
        if state is None or not state.curator:
            raise CallError("nobody is there who could propose other names")
        kind = srv.ConfirmLabel
        request = kind.Request(unknown_id=text(body, "id"), decision=kind.Request.DECISION_REFUSE)
        await self._console.bridge.call(kind, f"{state.curator}/confirm_label", request)
        return {}

    async def merge(self, body: dict[str, Any]) -> Any:
        """Say that several unknown things are one, or of one kind."""
        ids = texts(body, "ids")
        if len(ids) < 2:
            raise BadRequestError("two things at least can be merged")
        return {"id": await self._merge(node(body, "detector"), ids)}

    async def _merge(self, detector: str, ids: list[str]) -> str:
        kept = ids[0]
        for other in ids[1:]:
            request = srv.MergeUnknowns.Request(unknown_id=kept, other_id=other)
            answer = await self._console.bridge.call(
                srv.MergeUnknowns, f"{detector}/merge_unknowns", request
            )
            kept = answer.unknown_id
        return kept

    async def cancel(self, body: dict[str, Any]) -> Any:
        """Stop a learning job."""
        request = srv.CancelJob.Request(job_id=text(body, "job"))
        service = f"{node(body, 'detector')}/cancel_job"
        await self._console.bridge.call(srv.CancelJob, service, request)
        return {}
