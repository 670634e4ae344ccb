# SPDX-License-Identifier: Apache-2.0
"""What somebody asks to be learned, checked: every refusal has a code and a reason."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from newfound_core.detection.unknown_object import UnknownObject
from newfound_core.knowledge.labels import problem_with_label
from newfound_core.open_world.job import Job, LearningOptions
from newfound_nodes.open_world.job_folders import CURRENT_KNOWLEDGE, source_unknown
from newfound_runtime import images
from newfound_runtime.images import ImageError

FEWEST_IMAGES = 2  # one to learn from, one to hold out
MOST_IMAGES = 200
MOST_BYTES = 64 * 2**20
MOST_PIXELS = 16_000_000  # of one image: what a telephone takes
MOST_PIXELS_TOGETHER = 100_000_000  # a second or two of decoding


class RefusedError(Exception):
    """A request that cannot be granted; `code` is the name of a RESULT_ constant."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def learning_job(
    request: Any,
    known: Collection[str],
    learning: Collection[str],
    unknown: Callable[[str], UnknownObject | None],
    options: LearningOptions,
) -> tuple[Job, dict[str, bytes]]:
    """The job and the images that a request amounts to; raises RefusedError.

    `request` is one of AddUnknownClass or a goal of LearnClass.
    """
    label = request.label
    if problem := problem_with_label(label):
        raise RefusedError("INVALID_LABEL", problem)
    if label in known:
        raise RefusedError(
            "LABEL_EXISTS",
            f"a class {label!r} is known already; the parameter extend_known lets it be extended",
        )
    if label in learning:
        raise RefusedError("LABEL_EXISTS", f"{label!r} is being learned already")
    found: dict[str, bytes] = {}
    sources: dict[str, str] = {}
    if request.unknown_id:
        for number, crop in enumerate(_crops(request.unknown_id, unknown)):
            name = f"crop_{number:03d}.jpg"
            found[name], sources[name] = crop, source_unknown(request.unknown_id)
    given, complaint = _usable(request.images)
    found |= given
    sources |= dict.fromkeys(given, "request")
    if len(found) < FEWEST_IMAGES:
        reason = f"{len(found)} usable images, at least {FEWEST_IMAGES} are needed. {complaint}"
        raise RefusedError("BAD_IMAGES", reason.strip())
    return Job(label, CURRENT_KNOWLEDGE, options, sources), found


def _crops(unknown_id: str, unknown: Callable[[str], UnknownObject | None]) -> list[bytes]:
    entry = unknown(unknown_id)
    if entry is None:
        raise RefusedError("UNKNOWN_ID", f"no unknown object has the id {unknown_id[:60]!r}")
    if entry.state == "learning":
        raise RefusedError("LABEL_EXISTS", f"it is being learned already, as {entry.label!r}")
    return [crop.image for crop in entry.crops]


def _usable(messages: Sequence[Any]) -> tuple[dict[str, bytes], str]:
    """Images that can be decoded, by name, and what was wrong with the first other one."""
    if len(messages) > MOST_IMAGES:
        raise RefusedError(
            "BAD_IMAGES", f"{len(messages)} images, at most {MOST_IMAGES} are taken at once"
        )
    size = sum(len(message.data) for message in messages)
    if size > MOST_BYTES:
        raise RefusedError("BAD_IMAGES", f"{size} bytes of images, at most {MOST_BYTES} are taken")
    usable, complaint, pixels = {}, "", 0
    for number, message in enumerate(messages):
        try:
            height, width = images.decode(message, MOST_PIXELS).shape[:2]
        except ImageError as error:
            complaint = complaint or f"Image {number}: {error}"
            continue
        pixels += height * width
        if pixels > MOST_PIXELS_TOGETHER:
            raise RefusedError(
                "BAD_IMAGES",
                f"the images have more than {MOST_PIXELS_TOGETHER // 10**6} megapixels together: "
                "send fewer, or smaller ones",
            )
        content = bytes(message.data)
        extension = "png" if content.startswith(b"\x89PNG") else "jpg"
        usable[f"image_{number:03d}.{extension}"] = content
    return usable, complaint
