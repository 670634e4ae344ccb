# SPDX-License-Identifier: Apache-2.0
"""Lifecycle node for label queries and image fetches, on the web or from local sources."""

import functools
import math
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State

from newfound_core.errors import NewfoundError
from newfound_msgs.msg import FetchedImage, LabelCandidate
from newfound_msgs.srv import FetchImages, QueryLabel
from newfound_runtime.managed_node import LoadError, ManagedNode, Status
from newfound_runtime.rclpy_compat import Answer, DeferredService
from newfound_web.async_services import LoopThread
from newfound_web.collecting import FetchAnswer
from newfound_web.engine import ImageNetwork, QueryEngine
from newfound_web.errors import Outcome
from newfound_web.labelling import LabelAnswer
from newfound_web.parameters import PARAMETERS, settings_from

STOP_TIMEOUT = 10.0  # s for the event loop to end
MAX_CANDIDATES, MAX_IMAGES = 100, 500  # upper limits of a request
WARN_OUTCOMES = (Outcome.PROVIDERS_FAILED, Outcome.STORAGE, Outcome.TIMEOUT, Outcome.INTERNAL)


class WebQuery(ManagedNode):
    """Answers ~/query_label and ~/fetch_images from its own event loop.

    No executor thread waits for the network. Deactivation cancels running requests, which are
    answered with NOT_READY.
    """

    NAME = "web_query"
    PARAMETERS = PARAMETERS

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self._engine: QueryEngine | None = None
        self._loop: LoopThread | None = None
        self._running: set[Future] = set()
        self._counts: Counter[str] = Counter()
        self._last: tuple[Outcome, str] = (Outcome.OK, "")
        super().__init__(name, **node_arguments)
        DeferredService(self, QueryLabel, "~/query_label", self._query_label)
        DeferredService(self, FetchImages, "~/fetch_images", self._fetch_images)

    # Lifecycle ---------------------------------------------------------------------------

    def load(self) -> None:
        """Create the providers; the network is loaded only if one of them needs it."""
        try:
            settings = settings_from(self.param)
        except NewfoundError as error:
            raise LoadError(str(error)) from error
        if "wikimedia" in settings.image_providers and not self.param("contact"):
            self.get_logger().warning("wikimedia expects a contact: set the parameter `contact`")
        try:
            self._engine = QueryEngine(settings, functools.cache(self.load_network))
        except NewfoundError as error:
            raise LoadError(str(error)) from error
        self._loop = LoopThread(f"{self.get_name()}-web")

    def load_network(self) -> ImageNetwork:
        """Load the network for features and class names."""
        from newfound_web.vision import Vision

        return Vision()

    def deactivated(self) -> None:
        """Cancel running requests; each still gets a response."""
        for future in list(self._running):
            future.cancel()

    def stop_threads(self) -> bool:
        """Stop the event loop and close its connections."""
        if self._loop is None or self._engine is None:
            return True
        if not self._loop.stop(self._engine.fetcher.close(), STOP_TIMEOUT):
            return False
        self._loop = None
        return True

    def unload(self) -> None:
        """Release the providers."""
        self._engine = None

    def health(self) -> Status:
        """Warn if the last request failed."""
        outcome, message = self._last
        if outcome in WARN_OUTCOMES:
            text = f"the last request ended with {outcome.name}: {message}"
            return DiagnosticStatus.WARN, text, {}
        return DiagnosticStatus.OK, "ready", {}

    def diagnose(self) -> Mapping[str, object]:
        """Counters since the node was created."""
        cache_failures = self._engine.cache.failures if self._engine else 0
        return {
            "label_providers": ", ".join(self.param("label_providers")),
            "image_providers": ", ".join(self.param("image_providers")),
            "running": len(self._running),
            "cache_failures": cache_failures,
            **self._counts,
        }

    # Services ----------------------------------------------------------------------------

    def _query_label(
        self, request: QueryLabel.Request, response: QueryLabel.Response, answer: Answer
    ) -> None:
        def work(engine: QueryEngine) -> Coroutine[Any, Any, LabelAnswer]:
            count = min(request.max_candidates or self.param("max_candidates"), MAX_CANDIDATES)
            seconds = self._seconds(request.timeout_seconds, "label_timeout")
            more = [bytes(view.data) for view in request.more_crops]
            return engine.labeller.ask(
                bytes(request.crop.data), count, seconds, more, request.exclude
            )

        self._begin("query_label", work, fill_labels, response, answer)

    def _fetch_images(
        self, request: FetchImages.Request, response: FetchImages.Response, answer: Answer
    ) -> None:
        def work(engine: QueryEngine) -> Coroutine[Any, Any, FetchAnswer]:
            count = min(request.max_images or self.param("max_images"), MAX_IMAGES)
            seconds = self._seconds(request.timeout_seconds, "fetch_timeout")
            crop = bytes(request.crop.data)
            return engine.collector.collect(request.label, count, seconds, crop)

        self._begin("fetch_images", work, fill_images, response, answer)

    def _seconds(self, requested: float, default: str) -> float:
        """The time limit of a request, at most longest_timeout."""
        seconds = requested if math.isfinite(requested) and requested > 0 else self.param(default)
        return min(seconds, self.param("longest_timeout"))

    def _begin(
        self,
        what: str,
        work: Callable[[QueryEngine], Coroutine],
        fill: Callable[[Any, Any], None],
        response: Any,
        answer: Answer,
    ) -> None:
        """Start the work in the event loop, which also sends the response."""
        engine, loop = self._engine, self._loop
        if engine is None or loop is None or self.state() != State.PRIMARY_STATE_ACTIVE:
            set_result(response, Outcome.NOT_READY, "the node is not active")
            answer(response)
            return
        future = loop.submit(work(engine))
        self._running.add(future)
        future.add_done_callback(functools.partial(self._end, what, fill, response, answer))

    def _end(
        self,
        what: str,
        fill: Callable[[Any, Any], None],
        response: Any,
        answer: Answer,
        future: Future,
    ) -> None:
        """Send the response of finished work, in the event loop's thread."""
        self._running.discard(future)
        try:
            result = future.result()
            fill(response, result)
            outcome, message = result.outcome, result.message
        except CancelledError:
            outcome, message = Outcome.NOT_READY, "the node was deactivated"
        except Exception:
            self.get_logger().error(f"{what} failed\n{traceback.format_exc()}")
            outcome, message = Outcome.INTERNAL, "internal error; see the log"
        set_result(response, outcome, message)
        self._last = outcome, message
        self._counts[f"{what}_{outcome.name.lower()}"] += 1
        self.get_logger().info(f"{what}: {outcome.name}{f' ({message})' if message else ''}")
        answer(response)


def set_result(response: Any, outcome: Outcome, message: str) -> None:
    """Set the result code and message of a response."""
    response.result = getattr(type(response), f"RESULT_{outcome.name}")
    response.message = message


def fill_labels(response: QueryLabel.Response, answer: LabelAnswer) -> None:
    """Fill the response with candidates."""
    response.candidates = [
        LabelCandidate(
            label=c.label, confidence=c.confidence, provider=c.provider, span_share=c.span_share
        )
        for c in answer.candidates
    ]


def fill_images(response: FetchImages.Response, answer: FetchAnswer) -> None:
    """Fill the response with stored images."""
    response.rejected = answer.rejected
    if answer.collection is None:
        return
    response.collection = answer.collection.name
    for image in answer.collection.images:
        message = FetchedImage(file=image.file, sha256=image.sha256)
        message.width, message.height = image.width, image.height
        origin = image.origin
        message.provider, message.source = origin.provider, origin.source
        message.licence, message.attribution = origin.licence, origin.attribution
        response.images.append(message)
