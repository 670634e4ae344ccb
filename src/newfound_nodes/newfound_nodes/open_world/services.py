# SPDX-License-Identifier: Apache-2.0
"""The services of the open-world detector; each answer has a result code and a reason."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup

from newfound_core.packages import Package
from newfound_core.packages.classes import class_images
from newfound_core.packages.imports import package_source
from newfound_msgs.action import LearnClass
from newfound_msgs.srv import (
    AddUnknownClass,
    AssessViews,
    DismissUnknown,
    ListExamples,
    MergeUnknowns,
    RemoveExamples,
)
from newfound_nodes.knowledge.services import KnowledgeBaseServices
from newfound_nodes.open_world.frame_session import KnowledgeInUse
from newfound_nodes.open_world.messages import knowledge_message
from newfound_nodes.open_world.parameters import learning_options
from newfound_nodes.open_world.session import OpenWorldSession
from newfound_nodes.open_world.stored_views import StoredViews
from newfound_runtime import images
from newfound_runtime.images import ImageError
from newfound_runtime.managed_node import ManagedNode, run_in_thread
from newfound_runtime.services import RequestError

MOST_IMAGES = 200
MOST_VIEWS = 64  # that are assessed at once
MOST_BYTES = 64 * 2**20
MOST_PIXELS = 16_000_000  # of one image: what a telephone takes
MOST_PIXELS_TOGETHER = 100_000_000  # a second or two of decoding


class KnowledgeServices(KnowledgeBaseServices[OpenWorldSession]):
    """What is done with knowledge and unknown objects, and the action `~/learn_class`."""

    ACTION = (LearnClass, "learn_class")

    def __init__(
        self,
        node: ManagedNode,
        group: CallbackGroup,  # changes of the knowledge come one after another
        session: Callable[[], OpenWorldSession],  # or raises a RequestError
        in_use: Callable[[], KnowledgeInUse],  # the same; a node that follows has one, too
    ) -> None:
        super().__init__(node, group, session)
        self._in_use = in_use
        self._stored = StoredViews()
        self._serve(
            group,
            (
                (AddUnknownClass, "add_unknown_class", self._add),
                (DismissUnknown, "dismiss_unknown", self._dismiss),
                (RemoveExamples, "remove_examples", self._remove_examples),
                (MergeUnknowns, "merge_unknowns", self._merge),
            ),
        )
        self._serve(
            MutuallyExclusiveCallbackGroup(),  # these do not wait for those
            (
                (ListExamples, "list_examples", self._examples),
                (AssessViews, "assess_views", self._assess),
            ),
        )

    def knowledge(self) -> Any:
        """What is known, as a message."""
        return knowledge_message(self._in_use())

    def submit(self, request: Any) -> tuple[str, int]:
        """Queue the job of an AddUnknownClass request or a LearnClass goal: id, jobs before it."""
        return self._session().learn(
            request.label,
            request.unknown_id,
            lambda: usable_images(request.images),
            learning_options(self._node.param),
            extend=request.extend or self._node.param("extend_known"),
        )

    def submit_package(self, package: Package) -> str:
        """Queue the job of a packaged class."""
        images = class_images(package)
        return self._session().learn(
            package.name,
            "",
            lambda: (images, ""),
            learning_options(self._node.param),
            extend=self._node.param("extend_known"),
            source=package_source(package),
        )[0]

    # Handlers: each fills a response, or raises.

    def _dismiss(self, request: Any, response: Any) -> None:
        self._session().dismiss(request.unknown_id)

    def _remove_examples(self, request: Any, response: Any) -> None:
        options = learning_options(self._node.param)
        response.job_id = self._session().relearn(request.label, set(request.ids), options)

    def _merge(self, request: Any, response: Any) -> None:
        response.unknown_id = self._session().merge(request.unknown_id, request.other_id)

    def _examples(self, request: Any, response: Any) -> None:
        session = self._session()
        run_in_thread(lambda: self._stored.list_examples(session, request, response))

    def _assess(self, request: Any, response: Any) -> None:
        if len(request.images) > MOST_VIEWS:
            raise RequestError("BAD_IMAGES", f"at most {MOST_VIEWS} views are compared")
        session = self._session()
        usable, problem = usable_images(request.images)
        if problem:
            raise RequestError("BAD_IMAGES", problem)
        views = list(usable.values())
        run_in_thread(lambda: self._stored.assess(session, views, response))


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
