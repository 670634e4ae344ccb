# SPDX-License-Identifier: Apache-2.0
"""Services of every node with a knowledge base: its classes, its versions, its jobs.

They exist from the beginning, and answer RESULT_NOT_READY while the node is not active.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup
from std_srvs.srv import Trigger

from newfound_core.learning.job import JobState, JobStatus
from newfound_core.packages import Package
from newfound_msgs.srv import (
    CancelJob,
    ForgetClass,
    ListClasses,
    ListVersions,
    RenameClass,
    RestoreKnowledge,
)
from newfound_nodes.knowledge.learn_action import LearnAction
from newfound_nodes.knowledge.messages import learning_message, version_message
from newfound_nodes.knowledge.owner import KnowledgeOwner
from newfound_nodes.knowledge.package_services import PackageServices
from newfound_runtime.managed_node import ManagedNode
from newfound_runtime.services import RequestError, answering

S = TypeVar("S", bound=KnowledgeOwner[Any])
Handler = Callable[[Any, Any], None]  # fills a response, or raises


class KnowledgeBaseServices(ABC, Generic[S]):
    """Changes, lists and cancels. A subclass says what is known, and takes goals."""

    ACTION: tuple[type, str]  # type and name of the action that learns

    def __init__(
        self,
        node: ManagedNode,
        group: CallbackGroup,  # changes of the knowledge come one after another
        session: Callable[[], S],  # or raises a RequestError
    ) -> None:
        self._node, self._session = node, session
        self._serve(
            group,
            (
                (ForgetClass, "forget_class", self._forget),
                (RenameClass, "rename_class", self._rename),
                (RestoreKnowledge, "restore_knowledge", self._restore),
            ),
        )
        reading = MutuallyExclusiveCallbackGroup()  # these do not wait for those
        self._serve(
            reading,
            (
                (ListClasses, "list_classes", self._list),
                (ListVersions, "list_versions", self._versions),
                (CancelJob, "cancel_job", self._cancel_job),
            ),
        )
        cancel = self._cancel_learning
        node.create_service(Trigger, "~/cancel_learning", cancel, callback_group=reading)
        PackageServices(node, group, session, self.submit_package)
        self._action = LearnAction(node, group, self, *self.ACTION)

    def _serve(self, group: CallbackGroup, services: Sequence[tuple[type, str, Handler]]) -> None:
        for kind, name, handler in services:
            callback = answering(self._node, handler)
            self._node.create_service(kind, f"~/{name}", callback, callback_group=group)

    # For a subclass.

    @abstractmethod
    def knowledge(self) -> Any:
        """A KnowledgeBase message of what is known."""

    @abstractmethod
    def submit(self, request: Any) -> tuple[str, int]:
        """Queue the job of a goal or a request: id, jobs before it."""

    @abstractmethod
    def submit_package(self, package: Package) -> str:
        """Queue the job of a package that may be used: its id. Or raise a PackageError."""

    # For the action.

    def job_changed(self, status: JobStatus) -> None:
        """Publish the status of a job, log how it ended, tell who follows it by the action."""
        node = self._node
        if status.state.final:
            text = f"job {status.job}, {status.label!r}: {status.state} {status.message}".rstrip()
            if status.state in (JobState.DONE, JobState.CANCELLED):
                node.get_logger().info(text)
            else:  # a line of its own: rclpy wants one severity for each
                node.get_logger().warning(text)
        node.publish("learning", learning_message(status, node.get_clock().now().to_msg()))
        self._action.job_changed(status)

    def cancel(self, job: str) -> bool:
        """Ask a job to stop; False if it is final or not known."""
        try:
            return self._session().jobs.cancel(job)
        except RequestError:
            return False

    def version(self) -> int:
        """The version of the knowledge in use; 0 if there is none."""
        try:
            return self._session().version()
        except RequestError:
            return 0

    # Handlers.

    def _add(self, request: Any, response: Any) -> None:
        response.job_id, response.queue_position = self.submit(request)

    def _forget(self, request: Any, response: Any) -> None:
        try:
            self._session().forget(request.label)
        finally:
            response.knowledge_version = self.version()

    def _rename(self, request: Any, response: Any) -> None:
        try:
            self._session().rename(request.label, request.new_label)
        finally:
            response.knowledge_version = self.version()

    def _restore(self, request: Any, response: Any) -> None:
        try:
            self._session().restore(request.version)
        finally:
            response.knowledge_version = self.version()

    def _list(self, request: Any, response: Any) -> None:
        response.knowledge = self.knowledge()

    def _versions(self, request: Any, response: Any) -> None:
        session = self._session()
        in_use = session.version()
        response.versions = [version_message(*each, in_use) for each in session.versions()]

    def _cancel_job(self, request: Any, response: Any) -> None:
        try:
            if not self._session().jobs.cancel(request.job_id):
                raise RequestError("UNKNOWN_ID", "there is no such job, or it has ended")
        except OSError as error:
            raise RequestError("STORAGE", f"the job could not be cancelled: {error}") from error

    def _cancel_learning(self, request: Any, response: Any) -> Any:
        try:
            stopped = self._session().jobs.cancel_current()
        except RequestError as error:
            response.message = str(error)
            return response
        except OSError as error:
            response.message = f"the job could not be cancelled: {error}"
            return response
        response.success = stopped is not None
        response.message = "nothing is being learned"
        if stopped is not None:
            response.message = f"{stopped.label!r} will not be learned (job {stopped.job})"
        return response
