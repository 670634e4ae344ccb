# SPDX-License-Identifier: Apache-2.0
"""The services of the open-world detector; each answer has a result code and a reason."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup
from std_srvs.srv import Trigger

from newfound_core.learning.job import JobStatus, LearningOptions
from newfound_msgs.srv import (
    AddUnknownClass,
    AssessViews,
    CancelJob,
    DismissUnknown,
    ForgetClass,
    ListClasses,
    ListExamples,
    ListVersions,
    MergeUnknowns,
    RemoveExamples,
    RenameClass,
    RestoreKnowledge,
)
from newfound_nodes.open_world.learn_action import LearnAction
from newfound_nodes.open_world.messages import knowledge_message, version_message
from newfound_nodes.open_world.session import OpenWorldSession
from newfound_nodes.open_world.stored_views import StoredViews
from newfound_runtime import images
from newfound_runtime.images import ImageError
from newfound_runtime.managed_node import ManagedNode, run_in_thread
from newfound_runtime.services import RequestError, answering

MOST_IMAGES = 200
MOST_VIEWS = 64  # that are assessed at once
MOST_BYTES = 64 * 2**20
MOST_PIXELS = 16_000_000  # of one image: what a telephone takes
MOST_PIXELS_TOGETHER = 100_000_000  # a second or two of decoding


class KnowledgeServices:
    """What is done with knowledge and unknown objects, and the action `~/learn_class`.

    They exist from the beginning, and answer RESULT_NOT_READY while the node is not active.
    """

    def __init__(
        self,
        node: ManagedNode,
        group: CallbackGroup,  # changes of the knowledge come one after another
        session: Callable[[], OpenWorldSession | None],  # None while the node is not active
        options: Callable[[], LearningOptions],
    ) -> None:
        self._node, self._session, self._options = node, session, options
        self._stored = StoredViews()
        for kind, name, handler in (
            (AddUnknownClass, "add_unknown_class", self._add),
            (DismissUnknown, "dismiss_unknown", self._dismiss),
            (ForgetClass, "forget_class", self._forget),
            (RestoreKnowledge, "restore_knowledge", self._restore),
            (RenameClass, "rename_class", self._rename),
            (RemoveExamples, "remove_examples", self._remove_examples),
            (MergeUnknowns, "merge_unknowns", self._merge),
        ):
            callback = answering(node, handler)
            node.create_service(kind, f"~/{name}", callback, callback_group=group)
        # These do not wait for those.
        reading, looking = MutuallyExclusiveCallbackGroup(), MutuallyExclusiveCallbackGroup()
        for kind, name, handler, apart in (
            (ListClasses, "list_classes", self._list, reading),
            (ListVersions, "list_versions", self._versions, reading),
            (CancelJob, "cancel_job", self._cancel_job, reading),
            (ListExamples, "list_examples", self._examples, looking),
            (AssessViews, "assess_views", self._assess, looking),
        ):
            callback = answering(node, handler)
            node.create_service(kind, f"~/{name}", callback, callback_group=apart)
        cancel = self._cancel_learning
        node.create_service(Trigger, "~/cancel_learning", cancel, callback_group=reading)
        self._action = LearnAction(node, group, self)

    def job_changed(self, status: JobStatus) -> None:
        """Tell the client that follows a job through the action."""
        self._action.job_changed(status)

    # Shared by service and action.

    def submit(self, request: Any) -> tuple[str, int]:
        """Queue the job of an AddUnknownClass request or a LearnClass goal: id, jobs before it."""
        return self._ready().learn(
            request.label,
            request.unknown_id,
            lambda: usable_images(request.images),
            self._options(),
            extend=request.extend or self._node.param("extend_known"),
        )

    def cancel(self, job: str) -> bool:
        """Ask a job to stop; False if it is final or not known."""
        session = self._session()
        return session is not None and session.jobs.cancel(job)

    def version(self) -> int:
        """The version of the knowledge in use; 0 if there is none."""
        session = self._session()
        return session.version() if session is not None else 0

    # Handlers: each fills a response, or raises.

    def _add(self, request: Any, response: Any) -> None:
        response.job_id, response.queue_position = self.submit(request)

    def _dismiss(self, request: Any, response: Any) -> None:
        self._ready().dismiss(request.unknown_id)

    def _forget(self, request: Any, response: Any) -> None:
        try:
            self._ready().forget(request.label)
        finally:
            response.knowledge_version = self.version()

    def _restore(self, request: Any, response: Any) -> None:
        try:
            self._ready().restore(request.version)
        finally:
            response.knowledge_version = self.version()

    def _rename(self, request: Any, response: Any) -> None:
        try:
            self._ready().rename(request.label, request.new_label)
        finally:
            response.knowledge_version = self.version()

    def _remove_examples(self, request: Any, response: Any) -> None:
        options = self._options()
        response.job_id = self._ready().relearn(request.label, set(request.ids), options)

    def _merge(self, request: Any, response: Any) -> None:
        response.unknown_id = self._ready().merge(request.unknown_id, request.other_id)

    def _versions(self, request: Any, response: Any) -> None:
        session = self._ready()
        in_use = session.version()
        response.versions = [version_message(*each, in_use) for each in session.versions()]

    def _cancel_job(self, request: Any, response: Any) -> None:
        try:
            if not self._ready().jobs.cancel(request.job_id):
                raise RequestError("UNKNOWN_ID", "there is no such job, or it has ended")
        except OSError as error:
            raise RequestError("STORAGE", f"the job could not be cancelled: {error}") from error

    def _examples(self, request: Any, response: Any) -> None:
        session = self._ready()
        run_in_thread(lambda: self._stored.list_examples(session, request, response))

    def _assess(self, request: Any, response: Any) -> None:
        if len(request.images) > MOST_VIEWS:
            raise RequestError("BAD_IMAGES", f"at most {MOST_VIEWS} views are compared")
        session = self._ready()
        usable, problem = usable_images(request.images)
        if problem:
            raise RequestError("BAD_IMAGES", problem)
        views = list(usable.values())
        run_in_thread(lambda: self._stored.assess(session, views, response))

    def _list(self, request: Any, response: Any) -> None:
        response.knowledge = knowledge_message(self._ready().in_use)

    def _cancel_learning(self, request: Any, response: Any) -> Any:
        session = self._session()
        try:
            stopped = session.jobs.cancel_current() if session is not None else None
        except OSError as error:
            response.message = f"the job could not be cancelled: {error}"
            return response
        response.success = stopped is not None
        response.message = "nothing is being learned" if session else "the node is not active"
        if stopped is not None:
            response.message = f"{stopped.label!r} will not be learned (job {stopped.job})"
        return response

    def _ready(self) -> OpenWorldSession:
        session = self._session()
        if session is None:
            raise RequestError("NOT_READY", "the node is not active")
        return session


def usable_images(messages: Sequence[Any]) -> tuple[Mapping[str, bytes], str]:
    """Encoded images that can be decoded, by file name, and what is wrong with the first other.

    Too many or too large ones are refused with a RequestError.
    """
    if len(messages) > MOST_IMAGES:
        reason = f"{len(messages)} images, at most {MOST_IMAGES} are taken at once"
        raise RequestError("BAD_IMAGES", reason)
    size = sum(len(message.data) for message in messages)
    if size > MOST_BYTES:
        reason = f"{size} bytes of images, at most {MOST_BYTES} are taken"
        raise RequestError("BAD_IMAGES", reason)
    usable: dict[str, bytes] = {}
    problem, pixels = "", 0
    for number, message in enumerate(messages):
        try:
            height, width = images.decode(message, MOST_PIXELS).shape[:2]
        except ImageError as error:
            problem = problem or f"Image {number}: {error}"
            continue
        pixels += height * width
        if pixels > MOST_PIXELS_TOGETHER:
            raise RequestError(
                "BAD_IMAGES",
                f"the images have more than {MOST_PIXELS_TOGETHER // 10**6} megapixels together: "
                "send fewer, or smaller ones",
            )
        content = bytes(message.data)
        extension = "png" if content.startswith(b"\x89PNG") else "jpg"
        usable[f"image_{number:03d}.{extension}"] = content
    return usable, problem
