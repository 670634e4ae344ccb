# SPDX-License-Identifier: Apache-2.0
"""What imports of all kinds of classes have in common: images, a learning job without a node."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError

from newfound_core.errors import NewfoundError
from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.knowledge.labels import label_problem, normalise_label
from newfound_core.learning.job import Job, JobState, JobStatus
from newfound_core.learning.job_folder import JobFolders
from newfound_core.learning.learn import finish_job
from newfound_core.open_world.memory import Sample
from newfound_core.packages.archive import Package, PackageError

MOST_IMAGES = 200
_MOST_PIXELS = 16_000_000  # of one image
_MOST_PIXELS_TOGETHER = 100_000_000  # a second or two of decoding


def learn_here(
    base: KnowledgeBase[Any],
    job: Job,
    files: tuple[Mapping[str, bytes], ...],  # images, and masks where the job needs them
    labels: Iterable[str],  # of the classes that are known then
    complete: Callable[[Path], None] = lambda result: None,
) -> JobStatus:
    """Learn in an open knowledge base, and use what was learned; `complete` adds to it before."""
    folders = JobFolders(base.root / "jobs")
    name = folders.create(job, *files)
    result = finish_job(folders[name].path)
    status = JobStatus.ended(name, job.label, result)
    if result.state is JobState.DONE:
        learned = folders[name].result_path
        complete(learned)
        version = base.adopt(learned, labels, f"imported {job.label!r}", name)
        base.switch(version)
        status = replace(status, version=version)
    folders.finish(name, status)
    return status


def listed_images(package: Package, kind: str) -> list[Any]:
    """The entries of a class's images, not yet looked at; a PackageError if it is none."""
    if package.kind != kind:
        raise PackageError(f"it holds a {package.kind}, no {kind}")
    if problem := label_problem(normalise_label(package.name)):
        raise PackageError(problem)
    entries = package.details.get("images")
    if set(package.details) != {"images"} or not isinstance(entries, list) or not entries:
        raise PackageError("it lists no images")
    if len(entries) > MOST_IMAGES:
        raise PackageError(f"it has {len(entries)} images, at most {MOST_IMAGES} are taken")
    sizes = [image_size(c) for name, c in package.files.items() if name.startswith("images/")]
    if sum(size[0] * size[1] for size in sizes if size) > _MOST_PIXELS_TOGETHER:
        raise PackageError(
            f"its images have more than {_MOST_PIXELS_TOGETHER // 10**6} megapixels together"
        )
    return entries


def check_image(name: str, content: bytes) -> tuple[int, int]:
    """Width and height; refuse what is no picture, or one that would not fit into memory."""
    size = image_size(content)
    if size is None:
        raise PackageError(f"{name} is no image")
    if size[0] * size[1] > _MOST_PIXELS:
        raise PackageError(f"{name} has {size[0]} x {size[1]} pixels: too many")
    try:
        Sample(content, "").pixels()
    except NewfoundError as error:
        raise PackageError(f"{name} cannot be decoded: {error}") from error
    return size


def image_size(content: bytes) -> tuple[int, int] | None:
    """Width and height as a JPEG or PNG file says, without decoding it; None if it does not."""
    try:
        with Image.open(BytesIO(content), formats=["JPEG", "PNG"]) as image:
            return image.size
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError):
        return None


def package_source(package: Package) -> str:
    """What the knowledge says of where an image came from."""
    robot = package.provenance.get("robot", "")
    return f"package {package.digest[:12]} {robot}".strip()
