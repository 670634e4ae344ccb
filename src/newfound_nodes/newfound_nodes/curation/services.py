# SPDX-License-Identifier: Apache-2.0
"""The services that the curator asks, by the phase of a proposal."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rclpy.callback_groups import CallbackGroup
from sensor_msgs.msg import CompressedImage

from newfound_msgs.srv import AddUnknownClass, DismissUnknown, FetchImages, QueryLabel
from newfound_nodes.curation.caller import Caller, Hand
from newfound_nodes.curation.fetched_images import default_folder, read_images
from newfound_nodes.curation.proposal import Phase, Proposal
from newfound_runtime.managed_node import ManagedNode


class Services:
    """Knows whom to ask in which phase, with what request, and how long to wait."""

    def __init__(self, node: ManagedNode, group: CallbackGroup) -> None:
        self._node = node
        web, detector = node.param("web_query"), node.param("detector")
        learning = Caller(node, AddUnknownClass, f"{detector}/add_unknown_class", group)
        self._callers: Mapping[Phase, Caller] = {
            "asking": Caller(node, QueryLabel, f"{web}/query_label", group),
            "fetching": Caller(node, FetchImages, f"{web}/fetch_images", group),
            "submitting": learning,
            "learning": learning,
            "dismissing": Caller(node, DismissUnknown, f"{detector}/dismiss_unknown", group),
        }

    def name(self, phase: Phase) -> str:
        """The service that a phase needs."""
        return self._callers[phase].name

    def ready(self, phase: Phase) -> bool:
        """Whether it is there."""
        return self._callers[phase].ready()

    def missed(self, proposals: Iterable[Proposal]) -> list[str]:
        """Services that proposals need and nobody offers."""
        needed = {p.phase for p in proposals if p.phase in self._callers}
        return sorted({self.name(phase) for phase in needed if not self.ready(phase)})

    def ask(self, proposal: Proposal, crop: bytes, hand: Hand) -> None:
        """Ask for the next step of a proposal; `hand` gets the response, or None in the end."""
        request, seconds = self._request(proposal, crop)
        limit = seconds + self._node.param("answer_patience")
        self._callers[proposal.phase].call(request, limit, hand)

    def expire(self) -> None:
        """Give up what was waited for too long."""
        for caller in set(self._callers.values()):
            caller.expire()

    def forget(self) -> None:
        """Answers that are under way are no longer wanted."""
        for caller in set(self._callers.values()):
            caller.forget()

    def destroy(self) -> None:
        """Let go of the clients."""
        for caller in set(self._callers.values()):
            caller.destroy()

    def _request(self, proposal: Proposal, crop: bytes) -> tuple[Any, float]:
        """The request, and the time that the service itself may take."""
        param = self._node.param
        if proposal.phase == "asking":
            seconds = param("label_timeout")
            count = param("max_candidates")
            return QueryLabel.Request(
                crop=_picture(crop), max_candidates=count, timeout_seconds=seconds
            ), seconds
        if proposal.phase == "fetching":
            seconds = param("fetch_timeout")
            return FetchImages.Request(
                label=proposal.label,
                max_images=param("fetch_images"),
                timeout_seconds=seconds,
                crop=_picture(crop),
            ), seconds
        if proposal.phase == "dismissing":
            return DismissUnknown.Request(unknown_id=proposal.id), 0.0
        folder = Path(param("image_folder") or default_folder()).expanduser()
        images = read_images(folder, proposal.collection, proposal.files)
        if len(images) < len(proposal.files):
            self._node.get_logger().warning(
                f"{len(proposal.files) - len(images)} of {len(proposal.files)} images of "
                f"{proposal.label!r} are not in {folder}: is image_folder that of web_query?"
            )
        return AddUnknownClass.Request(
            label=proposal.label, unknown_id=proposal.id, images=[_picture(i) for i in images]
        ), 0.0


def _picture(content: bytes) -> CompressedImage:
    return CompressedImage(format="jpeg", data=content)
