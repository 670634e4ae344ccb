# SPDX-License-Identifier: Apache-2.0
"""The services that the curator calls, without waiting: requests, timeouts, and what answers mean.

Images that web_query has stored are read from the folder that both nodes are configured with.
Their names come in messages: none is opened that is not a collection's and a checksum's, and none
that leads out of the folder.
"""

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import CompressedImage

from newfound_msgs.srv import AddUnknownClass, DismissUnknown, FetchImages, QueryLabel
from newfound_nodes.curation.proposal import Answer, Candidate, Outcome, Proposal, ProposalState
from newfound_runtime.managed_node import ManagedNode

OnResponse = Callable[[Any], None]
MOST_BYTES = 48 * 2**20  # all together; the detector takes 64 MiB
_COLLECTION = re.compile(r"[a-z0-9_]{1,60}-[a-z0-9]{1,20}-[0-9]{4,6}")
_FILE = re.compile(r"[0-9a-f]{64}\.jpg")
_Query, _Fetch = QueryLabel.Response, FetchImages.Response
_Add, _Dismiss = AddUnknownClass.Response, DismissUnknown.Response

# What is not listed, a defect above all, has failed and may work if tried again.
_LABELS: Mapping[int, Outcome] = {
    _Query.RESULT_OK: "done",
    _Query.RESULT_NOTHING_FOUND: "refused",
    _Query.RESULT_BAD_IMAGES: "refused",
    _Query.RESULT_NOT_READY: "busy",
}
_IMAGES: Mapping[int, Outcome] = {
    _Fetch.RESULT_OK: "done",
    _Fetch.RESULT_NOTHING_FOUND: "refused",
    _Fetch.RESULT_INVALID_LABEL: "refused",
    _Fetch.RESULT_STORAGE: "refused",  # a full disk of images is no reason not to learn
    _Fetch.RESULT_NOT_READY: "busy",
}
_LEARNING: Mapping[int, Outcome] = {
    _Add.RESULT_OK: "done",
    _Add.RESULT_INVALID_LABEL: "refused",
    _Add.RESULT_LABEL_EXISTS: "exists",
    _Add.RESULT_UNKNOWN_ID: "gone",
    _Add.RESULT_BAD_IMAGES: "refused",
    _Add.RESULT_BUSY: "busy",
    _Add.RESULT_NOT_READY: "busy",
    _Add.RESULT_STORAGE: "busy",  # room may be made
}
_DISMISSING: Mapping[int, Outcome] = {
    _Dismiss.RESULT_OK: "done",
    _Dismiss.RESULT_UNKNOWN_ID: "gone",
    _Dismiss.RESULT_BUSY: "busy",
    _Dismiss.RESULT_NOT_READY: "busy",
}
_OUTCOMES: Mapping[ProposalState, Mapping[int, Outcome]] = {
    ProposalState.ASKING: _LABELS,
    ProposalState.FETCHING: _IMAGES,
    ProposalState.SUBMITTING: _LEARNING,
    ProposalState.LEARNING: _LEARNING,
    ProposalState.DISMISSING: _DISMISSING,
}


class AsyncClient:
    """A service client with a timeout; its owner calls `expire` regularly."""

    def __init__(self, node: Node, kind: type, name: str, group: CallbackGroup) -> None:
        self.kind = kind
        self._node = node
        self._client = node.create_client(kind, name, callback_group=group)
        self._lock = threading.Lock()
        self._waiting: dict[
            Future, tuple[float, OnResponse]
        ] = {}  # deadline, and where the response goes

    @property
    def name(self) -> str:
        """The full name of the service."""
        return self._client.srv_name

    def ready(self) -> bool:
        """Whether a server offers the service."""
        return self._client.service_is_ready()

    def call(self, request: Any, timeout: float, on_response: OnResponse) -> None:
        """Ask; `on_response` gets the response, or None if there is none in time."""
        future = self._client.call_async(request)
        with self._lock:
            self._waiting[future] = (time.monotonic() + timeout, on_response)
        future.add_done_callback(self._answered)

    def expire(self) -> None:
        """Time out requests without an answer."""
        now = time.monotonic()
        with self._lock:
            late = [future for future, (end, _) in self._waiting.items() if now > end]
        for future in late:
            self._client.remove_pending_request(future)
            self._settle(future, None)

    def drop(self) -> None:
        """Ignore answers that are still to come."""
        with self._lock:
            self._waiting.clear()

    def destroy(self) -> None:
        """Destroy the client."""
        self.drop()
        self._node.destroy_client(self._client)

    def _answered(self, future: Future) -> None:
        self._settle(future, None if future.exception() else future.result())

    def _settle(self, future: Future, response: Any) -> None:
        with self._lock:
            _, on_response = self._waiting.pop(future, (0.0, None))
        if on_response is not None:
            on_response(response)


class ServiceClients:
    """The service, request and timeout of each state of a proposal."""

    def __init__(self, node: ManagedNode, group: CallbackGroup) -> None:
        self._node = node
        web, detector = node.param("web_query"), node.param("detector")
        learning = AsyncClient(node, AddUnknownClass, f"{detector}/add_unknown_class", group)
        self._clients: Mapping[ProposalState, AsyncClient] = {
            ProposalState.ASKING: AsyncClient(node, QueryLabel, f"{web}/query_label", group),
            ProposalState.FETCHING: AsyncClient(node, FetchImages, f"{web}/fetch_images", group),
            ProposalState.SUBMITTING: learning,
            ProposalState.LEARNING: learning,
            ProposalState.DISMISSING: AsyncClient(
                node, DismissUnknown, f"{detector}/dismiss_unknown", group
            ),
        }

    def name(self, state: ProposalState) -> str:
        """The service that a state needs."""
        return self._clients[state].name

    def ready(self, state: ProposalState) -> bool:
        """Whether it is there."""
        return self._clients[state].ready()

    def missing(self, proposals: Iterable[Proposal]) -> list[str]:
        """Services that proposals need and no server offers."""
        needed = {p.state for p in proposals if p.state in self._clients}
        return sorted({self.name(state) for state in needed if not self.ready(state)})

    def call(
        self, proposal: Proposal, views: Sequence[bytes], known: Iterable[str], on: OnResponse
    ) -> None:
        """Call the service of the next step; `on` gets None if no response came in time.

        `views` are of the object, best first; names of `known` classes are not asked for.
        """
        request, seconds = self._request(proposal, views, known)
        timeout = seconds + self._node.param("answer_timeout")
        self._clients[proposal.state].call(request, timeout, on)

    def expire(self) -> None:
        """Time out requests without an answer."""
        for client in set(self._clients.values()):
            client.expire()

    def drop(self) -> None:
        """Answers that are under way are no longer wanted."""
        for client in set(self._clients.values()):
            client.drop()

    def destroy(self) -> None:
        """Let go of the clients."""
        for client in set(self._clients.values()):
            client.destroy()

    def _request(
        self, proposal: Proposal, views: Sequence[bytes], known: Iterable[str]
    ) -> tuple[Any, float]:
        """The request, and the time that the service itself may take."""
        param = self._node.param
        crop = views[0] if views else b""
        if proposal.state == ProposalState.ASKING:
            seconds = param("label_timeout")
            count = param("max_candidates")
            return QueryLabel.Request(
                crop=_picture(crop),
                more_crops=[_picture(view) for view in views[1:]],
                exclude=sorted({*known, *proposal.refused}),
                max_candidates=count,
                timeout_seconds=seconds,
            ), seconds
        if proposal.state == ProposalState.FETCHING:
            seconds = param("fetch_timeout")
            return FetchImages.Request(
                label=proposal.label,
                max_images=param("fetch_images"),
                timeout_seconds=seconds,
                crop=_picture(crop),
            ), seconds
        if proposal.state == ProposalState.DISMISSING:
            return DismissUnknown.Request(unknown_id=proposal.id), 0.0
        folder = Path(param("image_folder") or default_folder()).expanduser()
        images = read_images(folder, proposal.collection, proposal.files)
        if len(images) < len(proposal.files):
            self._node.get_logger().warning(
                f"{len(proposal.files) - len(images)} of {len(proposal.files)} images of "
                f"{proposal.label!r} are not in {folder}: is image_folder that of web_query?"
            )
        return AddUnknownClass.Request(
            label=proposal.label,
            unknown_id=proposal.id,
            images=[_picture(i) for i in images],
            extend=proposal.extend,
        ), 0.0


def _picture(content: bytes) -> CompressedImage:
    return CompressedImage(format="jpeg", data=content)


def answer_from(state: ProposalState, service: str, response: Any) -> Answer:
    """What a response means for a proposal; None is a response that did not come."""
    if response is None:
        return Answer("failed", f"{service} did not answer in time")
    outcome = _OUTCOMES[state].get(response.result, "failed")
    message = response.message
    if state is ProposalState.ASKING:
        found = [
            Candidate(c.label, float(c.confidence), c.provider, float(c.span_share))
            for c in response.candidates
        ]
        # When time was up, what had arrived is enough.
        return Answer("done" if found else outcome, message, found)
    if state is ProposalState.FETCHING:
        files = [image.file for image in response.images]
        return Answer("done" if files else outcome, message, (), response.collection, files)
    return Answer(outcome, message, job=getattr(response, "job_id", ""))


def service_absent(service: str) -> Answer:
    """The answer of a service that is not there."""
    return Answer("away", f"{service} is not there")


def default_folder() -> Path:
    """Where web_query stores images unless its parameter says otherwise."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "newfound" / "images"


def read_images(root: Path, collection: str, files: Sequence[str]) -> list[bytes]:
    """The contents of those that are there, unchanged since they were stored."""
    if not _COLLECTION.fullmatch(collection):
        return []
    found: list[bytes] = []
    for name in files:
        content = _read(root, root / collection / name) if _FILE.fullmatch(name) else None
        if content is None or hashlib.sha256(content).hexdigest() != name.removesuffix(".jpg"):
            continue
        if sum(map(len, found)) + len(content) > MOST_BYTES:
            break
        found.append(content)
    return found


def _read(root: Path, path: Path) -> bytes | None:
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            return None
        return path.read_bytes()
    except OSError:
        return None
