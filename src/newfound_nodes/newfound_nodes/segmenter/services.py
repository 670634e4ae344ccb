# SPDX-License-Identifier: Apache-2.0
"""The services and the action of the segmenter; each answer has a result code and a reason."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image as PillowImage
from rclpy.callback_groups import CallbackGroup

from newfound_core.errors import DataError
from newfound_core.learning.job import SegmentOptions
from newfound_core.packages import Package
from newfound_core.packages.imports import package_source
from newfound_core.packages.segments import segment_pairs
from newfound_core.segmentation.class_learning import FEWEST_IMAGES
from newfound_core.segmentation.label_image import check_label_image
from newfound_msgs.action import LearnSegment
from newfound_msgs.srv import AddSegmentClass
from newfound_nodes.knowledge.services import KnowledgeBaseServices
from newfound_nodes.open_world.services import MOST_BYTES, MOST_PIXELS, usable_images
from newfound_nodes.segmenter.messages import knowledge_message
from newfound_nodes.segmenter.session import Pairs, SegmentSession
from newfound_runtime.images import ImageError, decode_file
from newfound_runtime.managed_node import ManagedNode
from newfound_runtime.services import RequestError


class SegmentServices(KnowledgeBaseServices[SegmentSession]):
    """What is done with the segmenter's knowledge, and the action `~/learn_segment`."""

    ACTION = (LearnSegment, "learn_segment")

    def __init__(
        self,
        node: ManagedNode,
        group: CallbackGroup,
        session: Callable[[], SegmentSession],
        options: Callable[[], SegmentOptions],
    ) -> None:
        super().__init__(node, group, session)
        self._options = options
        self._serve(group, ((AddSegmentClass, "add_segment_class", self._add),))

    def knowledge(self) -> Any:
        """What is known, as a message."""
        return knowledge_message(self._session().in_use)

    def submit(self, request: Any) -> tuple[str, int]:
        """Queue the job of a request or a goal: id, jobs before it."""
        pairs = lambda: usable_pairs(request.images, request.masks)  # noqa: E731
        return self._session().learn(request.label, pairs, self._options())

    def submit_package(self, package: Package) -> str:
        """Queue the job of a packaged class."""
        pairs, source = segment_pairs(package), package_source(package)
        session = self._session()
        return session.learn(package.name, lambda: pairs, self._options(), source=source)[0]


def usable_pairs(images: Sequence[Any], masks: Sequence[Any]) -> Pairs:
    """Encoded images and their masks by file name, or a RequestError: each pair must be right.

    A person drew these masks: one that is left out silently would be found out by nobody.
    """
    if len(images) != len(masks):
        raise _bad(f"{len(images)} images have {len(masks)} masks: send one for each")
    if len(images) < FEWEST_IMAGES:
        reason = "one to learn from and one to hold out"
        raise _bad(f"{len(images)} images, at least {FEWEST_IMAGES} are needed: {reason}")
    if (size := sum(len(mask.data) for mask in masks)) > MOST_BYTES:
        raise _bad(f"{size} bytes of masks, at most {MOST_BYTES} are taken")
    usable, problem = usable_images(images)
    if problem:
        raise _bad(problem)
    named = dict(zip(usable, masks, strict=True))
    shown = 0
    for number, (name, mask) in enumerate(named.items()):
        height, width = decode_file(usable[name]).shape[:2]
        shown += bool((_mask(mask, number, (width, height)) == 1).any())
    if shown < FEWEST_IMAGES:
        raise _bad(
            f"{shown} of {len(masks)} masks show the class (pixels of value 1), at least "
            f"{FEWEST_IMAGES} are needed; the others are empty"
        )
    return usable, {name: bytes(mask.data) for name, mask in named.items()}


def _mask(message: Any, number: int, size: tuple[int, int]) -> np.ndarray:
    where = f"Mask {number}"
    try:
        decode_file(message.data, ("PNG",), MOST_PIXELS)  # whole, and no bomb
        with PillowImage.open(io.BytesIO(message.data), formats=("PNG",)) as image:
            if image.mode not in ("L", "P", "1"):
                raise _bad(f"{where} is no 8-bit grey PNG but {image.mode}")
            values = np.array(image).astype(np.uint8)
    except ImageError as error:
        raise _bad(f"{where}: {error}") from error
    if values.shape[::-1] != size:
        raise _bad(
            f"{where} has {values.shape[1]}x{values.shape[0]} pixels, its image "
            f"{size[0]}x{size[1]}: draw it at the size of the image"
        )
    try:
        return check_label_image(values, 2, where)
    except DataError as error:
        raise _bad(str(error)) from error


def _bad(reason: str) -> RequestError:
    return RequestError("BAD_IMAGES", reason)
