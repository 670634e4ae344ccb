# SPDX-License-Identifier: Apache-2.0
"""The services and the action of the open-world detector: every answer has a code and a reason."""

from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup
from std_srvs.srv import Trigger

from newfound_core.errors import DamagedError, NewfoundError, StorageError, UnknownVersionError
from newfound_core.open_world.job import LearningOptions
from newfound_msgs.srv import (
    AddUnknownClass,
    DismissUnknown,
    ForgetClass,
    ListClasses,
    RestoreKnowledge,
)
from newfound_nodes.open_world.job_status import JobStatus
from newfound_nodes.open_world.learn_action import LearnAction
from newfound_nodes.open_world.learning_queue import QueueFullError
from newfound_nodes.open_world.messages import knowledge_message
from newfound_nodes.open_world.mind import Mind
from newfound_nodes.open_world.requests import RefusedError
from newfound_runtime.managed_node import ManagedNode

_BUSY = "a class is being learned: wait for it, or call ~/cancel_learning"
_CODES: tuple[tuple[type[Exception], str], ...] = (
    (QueueFullError, "BUSY"),
    (StorageError, "STORAGE"),
    (UnknownVersionError, "UNKNOWN_VERSION"),
    (DamagedError, "DAMAGED"),
)


class KnowledgeServices:
    """`~/add_unknown_class`, `~/dismiss_unknown`, `~/forget_class`, `~/restore_knowledge`,
    `~/list_classes`, `~/cancel_learning`, and the action `~/learn_class`; they are there from the
    beginning and say when they are not ready.
    """

    def __init__(
        self,
        node: ManagedNode,
        group: CallbackGroup,  # changes of the knowledge come one after another
        mind: Callable[[], Mind | None],
        options: Callable[[], LearningOptions],
    ) -> None:
        self._node, self._mind, self._options = node, mind, options
        for kind, name, answer in (
            (AddUnknownClass, "add_unknown_class", self._add),
            (DismissUnknown, "dismiss_unknown", self._dismiss),
            (ForgetClass, "forget_class", self._forget),
            (RestoreKnowledge, "restore_knowledge", self._restore),
        ):
            callback = self._answering(answer)
            node.create_service(kind, f"~/{name}", callback, callback_group=group)
        # These do not wait for those.
        reading = MutuallyExclusiveCallbackGroup()
        callback = self._answering(self._list)
        node.create_service(ListClasses, "~/list_classes", callback, callback_group=reading)
        callback = self._cancel_at_work
        node.create_service(Trigger, "~/cancel_learning", callback, callback_group=reading)
        self._action = LearnAction(node, group, self._submit, self._cancel, self._version)

    def job_changed(self, status: JobStatus) -> None:
        """Tell whoever follows a job through the action."""
        self._action.job_changed(status)

    # Answers. Each fills a response, or raises.

    def _add(self, mind: Mind, request: Any, response: Any) -> None:
        if not mind.keeper.now.knowledge.can_learn:
            raise RefusedError(
                "NOT_READY", "the model came without a memory: it would forget what it knows"
            )
        extend = self._node.param("extend_known")
        found = mind.learn(request, self._options(), extend=extend)
        response.job_id, response.queue_position = found

    def _dismiss(self, mind: Mind, request: Any, response: Any) -> None:
        mind.dismiss(request.unknown_id)

    def _forget(self, mind: Mind, request: Any, response: Any) -> None:
        labels = mind.keeper.now.knowledge.labels
        if request.label not in labels:
            known = ", ".join(labels[:20])
            raise RefusedError(
                "UNKNOWN_LABEL", f"no class {request.label[:100]!r}; known: {known}"
            )
        if len(labels) == 1:
            raise RefusedError("LAST_CLASS", "it is the only class: one has to stay")
        if mind.queue.busy:
            raise RefusedError("BUSY", _BUSY)
        mind.keeper.forget(request.label)

    def _restore(self, mind: Mind, request: Any, response: Any) -> None:
        if mind.queue.busy:
            raise RefusedError("BUSY", _BUSY)
        mind.keeper.restore(request.version)

    def _list(self, mind: Mind, request: Any, response: Any) -> None:
        response.knowledge = knowledge_message(mind.keeper.now)

    def _cancel_at_work(self, request: Any, response: Any) -> Any:
        mind = self._mind()
        try:
            stopped = mind.queue.cancel_at_work() if mind is not None else None
        except OSError as error:
            response.message = f"it cannot be told to stop: {error}"
            return response
        response.success = stopped is not None
        response.message = "nothing is being learned" if mind else "the node is not active"
        if stopped is not None:
            response.message = f"{stopped.label!r} will not be learned (job {stopped.job})"
        return response

    # The action.

    def _submit(self, goal: Any) -> Any:
        return self._answering(self._add)(goal, AddUnknownClass.Response())

    def _cancel(self, job: str) -> bool:
        mind = self._mind()
        return mind is not None and mind.queue.cancel(job)

    def _version(self) -> int:
        mind = self._mind()
        return mind.keeper.now.version if mind is not None else 0

    # Around all of them.

    def _answering(self, answer: Callable[[Mind, Any, Any], None]) -> Callable[[Any, Any], Any]:
        """A service callback that turns whatever is raised into a code and a reason."""

        def callback(request: Any, response: Any) -> Any:
            mind = self._mind()
            try:
                if mind is None:
                    raise RefusedError("NOT_READY", "the node is not active")
                answer(mind, request, response)
            except RefusedError as refused:
                _refuse(response, refused.code, str(refused))
            except NewfoundError as error:
                code = next((c for kind, c in _CODES if isinstance(error, kind)), "INTERNAL")
                _refuse(response, code, str(error))
            except Exception as error:
                self._node.log_traceback(f"{answer.__name__} failed")
                _refuse(response, "INTERNAL", f"{type(error).__name__}: {error}")
            if hasattr(response, "knowledge_version"):
                response.knowledge_version = self._version()
            return response

        return callback


def _refuse(response: Any, code: str, message: str) -> None:
    response.result = getattr(response, f"RESULT_{code}", response.RESULT_INTERNAL)
    response.message = message
