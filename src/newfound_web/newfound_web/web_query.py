# SPDX-License-Identifier: Apache-2.0
"""The node that asks the web what a thing is called and what it looks like."""

import functools
import math
import sys
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
from newfound_runtime.container import run
from newfound_runtime.managed_node import LoadError, ManagedNode, Status
from newfound_web.assembly import Desk, Sight
from newfound_web.collecting import FetchAnswer
from newfound_web.deferred_service import Answer, DeferredService
from newfound_web.errors import WebError
from newfound_web.labelling import LabelAnswer
from newfound_web.loop_thread import LoopThread
from newfound_web.outcome import Outcome
from newfound_web.parameters import PARAMETERS, settings_from

PATIENCE = 10.0  # s that the loop may take to end
MOST_CANDIDATES, MOST_IMAGES = 100, 500  # whatever a request says
TROUBLE = (Outcome.PROVIDERS_FAILED, Outcome.STORAGE, Outcome.TIMEOUT, Outcome.INTERNAL)


class WebQuery(ManagedNode):
    """Answers ~/query_label and ~/fetch_images from an event loop of its own.

    Requests wait for the network there and never in a thread of the executor. A request that is
    under way when the node is deactivated is cancelled and answered with NOT_READY.
    """

    NAME = "web_query"
    PARAMETERS = PARAMETERS

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self._desk: Desk | None = None
        self._loop: LoopThread | None = None
        self._under_way: set[Future] = set()
        self._counts: Counter[str] = Counter()
        self._last: tuple[Outcome, str] = (Outcome.OK, "")
        super().__init__(name, **node_arguments)
        DeferredService(self, QueryLabel, "~/query_label", self._query_label)
        DeferredService(self, FetchImages, "~/fetch_images", self._fetch_images)

    # Lifecycle ---------------------------------------------------------------------------

    def load(self) -> None:
        """Make the providers; the network is loaded only if one of them needs it."""
        settings = settings_from(self.param)
        if "wikimedia" in settings.image_providers and not self.param("contact"):
            self.get_logger().warning("wikimedia expects a contact: set the parameter `contact`")
        try:
            self._desk = Desk(settings, functools.cache(self.sight))
        except (WebError, NewfoundError) as error:
            raise LoadError(str(error)) from error
        self._loop = LoopThread(f"{self.get_name()}-web")

    def sight(self) -> Sight:
        """The network for features and names."""
        from newfound_web.vision import Vision

        return Vision()

    def deactivated(self) -> None:
        """Cancel what is under way; each request still gets its answer."""
        for future in list(self._under_way):
            future.cancel()

    def stop_threads(self) -> bool:
        """End the loop and its connections."""
        if self._loop is None or self._desk is None:
            return True
        if not self._loop.stop(self._desk.fetcher.close(), PATIENCE):
            return False
        self._loop = None
        return True

    def unload(self) -> None:
        """Forget the providers."""
        self._desk = None

    def health(self) -> Status:
        """How the last request ended."""
        outcome, message = self._last
        if outcome in TROUBLE:
            text = f"the last request ended with {outcome.name}: {message}"
            return DiagnosticStatus.WARN, text, {}
        return DiagnosticStatus.OK, "ready", {}

    def diagnose(self) -> Mapping[str, object]:
        """Counts since the node was made."""
        cache_failures = self._desk.cache.failures if self._desk else 0
        return {
            "label_providers": ", ".join(self.param("label_providers")),
            "image_providers": ", ".join(self.param("image_providers")),
            "under_way": len(self._under_way),
            "cache_failures": cache_failures,
            **self._counts,
        }

    # Services ----------------------------------------------------------------------------

    def _query_label(
        self, request: QueryLabel.Request, response: QueryLabel.Response, answer: Answer
    ) -> None:
        def work(desk: Desk) -> Coroutine[Any, Any, LabelAnswer]:
            count = min(request.max_candidates or self.param("max_candidates"), MOST_CANDIDATES)
            seconds = self._seconds(request.timeout_seconds, "label_timeout")
            return desk.labeller.ask(bytes(request.crop.data), count, seconds)

        self._begin("query_label", work, fill_labels, response, answer)

    def _fetch_images(
        self, request: FetchImages.Request, response: FetchImages.Response, answer: Answer
    ) -> None:
        def work(desk: Desk) -> Coroutine[Any, Any, FetchAnswer]:
            count = min(request.max_images or self.param("max_images"), MOST_IMAGES)
            seconds = self._seconds(request.timeout_seconds, "fetch_timeout")
            crop = bytes(request.crop.data)
            return desk.collector.collect(request.label, count, seconds, crop)

        self._begin("fetch_images", work, fill_images, response, answer)

    def _seconds(self, asked: float, default: str) -> float:
        """The time limit of a request, within reason."""
        seconds = asked if math.isfinite(asked) and asked > 0 else self.param(default)
        return min(seconds, self.param("longest_timeout"))

    def _begin(
        self,
        what: str,
        work: Callable[[Desk], Coroutine],
        fill: Callable[[Any, Any], None],
        response: Any,
        answer: Answer,
    ) -> None:
        """Start the work in the loop; its end is answered from there."""
        desk, loop = self._desk, self._loop
        if desk is None or loop is None or self.state() != State.PRIMARY_STATE_ACTIVE:
            set_result(response, Outcome.NOT_READY, "the node is not active")
            answer(response)
            return
        future = loop.submit(work(desk))
        self._under_way.add(future)
        future.add_done_callback(functools.partial(self._end, what, fill, response, answer))

    def _end(
        self,
        what: str,
        fill: Callable[[Any, Any], None],
        response: Any,
        answer: Answer,
        future: Future,
    ) -> None:
        """In the loop's thread: the work is done, one way or another."""
        self._under_way.discard(future)
        try:
            result = future.result()
            fill(response, result)
            outcome, message = result.outcome, result.message
        except CancelledError:
            outcome, message = Outcome.NOT_READY, "the node was deactivated meanwhile"
        except Exception:
            self.get_logger().error(f"{what} failed\n{traceback.format_exc()}")
            outcome, message = Outcome.INTERNAL, "a defect; see the log"
        set_result(response, outcome, message)
        self._last = outcome, message
        self._counts[f"{what}_{outcome.name.lower()}"] += 1
        self.get_logger().info(f"{what}: {outcome.name}{f' ({message})' if message else ''}")
        answer(response)


def set_result(response: Any, outcome: Outcome, message: str) -> None:
    """The outcome as the response's result code."""
    response.result = getattr(type(response), f"RESULT_{outcome.name}")
    response.message = message


def fill_labels(response: QueryLabel.Response, answer: LabelAnswer) -> None:
    """Candidates as messages."""
    response.candidates = [
        LabelCandidate(label=c.label, confidence=c.confidence, provider=c.provider)
        for c in answer.candidates
    ]


def fill_images(response: FetchImages.Response, answer: FetchAnswer) -> None:
    """Stored images as messages."""
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


def main() -> int:
    """Run the node."""
    return run(WebQuery)


if __name__ == "__main__":
    sys.exit(main())
