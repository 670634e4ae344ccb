# SPDX-License-Identifier: Apache-2.0
"""A class of pixels as a package, and its way into another segmenter's knowledge base.

It has images and their masks (1 the class, 0 not, 255 not known): what the class was taught with,
or reference frames that show a class that was never taught here. It is learned from them, with the
checks of any other job.
"""

import hashlib
import time
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from newfound_core.errors import DataError
from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.knowledge.labels import find_label, normalise_label
from newfound_core.knowledge.segments import METHOD, SegmentKnowledge, read_segments
from newfound_core.learning.job import Job, JobStatus, SegmentOptions
from newfound_core.models import load_model
from newfound_core.packages.archive import Package, PackageError
from newfound_core.packages.imports import (
    check_image,
    learn_here,
    listed_images,
    package_source,
)
from newfound_core.segmentation import BACKGROUND, UNLABELLED
from newfound_core.segmentation.class_learning import FEWEST_IMAGES
from newfound_core.segmentation.label_image import MOST_CLASSES, check_label_image
from newfound_core.segmentation.reference import encoded, read_reference
from newfound_core.segmentation.samples import LabelledImage
from newfound_core.segmentation.taught import MOST_TAUGHT, read_taught

Pairs = tuple[dict[str, bytes], dict[str, bytes]]  # images and their masks, by name


def export_segment(version: Path, label: str, robot: str = "") -> Package:
    """A class of a version of a knowledge base, or of any segmentation checkpoint."""
    labels = load_model(version, METHOD).labels
    known = find_label(label, labels)
    if known is None or known == BACKGROUND:
        raise PackageError(f"no class {label!r}; there are {', '.join(labels[1:21])}")
    index = labels.index(known)
    frames = read_taught(version, index) or _shown(read_reference(version, len(labels)), index)
    if not frames:
        raise PackageError(f"{known!r} cannot be given away: no images of it are kept")
    files: dict[str, bytes] = {}
    entries: list[dict[str, str]] = []
    for jpeg, png in map(encoded, frames):
        entry = {"file": _named(jpeg, "jpg"), "mask": _named(png, "png")}
        files |= {entry["file"]: jpeg, entry["mask"]: png}
        entries.append(entry)
    made = {"made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "robot": robot}
    package = Package("segmentation_class", known, {"images": entries}, files, made)
    try:
        segment_pairs(package)
    except PackageError as error:
        raise PackageError(f"{known!r} cannot be given away: {error}") from error
    return package


def _shown(frames: list[LabelledImage], index: int) -> list[LabelledImage]:
    """Frames that show a class, as if it had been taught with them."""
    table = np.zeros(256, np.uint8)
    table[index], table[UNLABELLED] = 1, UNLABELLED
    found = [LabelledImage(f.rgb, table[f.labels], f.name) for f in frames if index in f.labels]
    return found[:MOST_TAUGHT]


def _named(content: bytes, ending: str) -> str:
    return f"images/{hashlib.sha256(content).hexdigest()}.{ending}"


def segment_pairs(package: Package) -> Pairs:
    """Images and masks of a class, by names that a job takes; a PackageError if it is none."""
    entries = listed_images(package, "segmentation_class")
    images: dict[str, bytes] = {}
    masks: dict[str, bytes] = {}
    shown, others = 0, False
    for number, entry in enumerate(entries):
        file, mask = _files(package, entry)
        values = _mask(mask, package.files[mask], check_image(file, package.files[file]))
        shown += bool((values == 1).any())
        others |= bool((values == 0).any())
        name = f"image_{number:03d}{Path(file).suffix}"
        images[name], masks[name] = package.files[file], package.files[mask]
    if set(package.files) != {file for entry in entries for file in entry.values()}:
        raise PackageError("it has files that are neither images nor masks of the class")
    if shown < FEWEST_IMAGES or not others:
        raise PackageError(
            f"{shown} of {len(entries)} masks show the class (value 1), at least {FEWEST_IMAGES} "
            "must, and in one there must be something else (value 0)"
        )
    return images, masks


def _files(package: Package, entry: object) -> tuple[str, str]:
    """The names of an image and its mask, which are there."""
    if not isinstance(entry, dict) or set(entry) != {"file", "mask"}:
        raise PackageError("its list of images has a wrong form")
    for name in entry.values():
        if not isinstance(name, str) or name not in package.files:
            raise PackageError(f"the image {str(name)[:100]!r} is not in it")
    return entry["file"], entry["mask"]


def _mask(name: str, content: bytes, size: tuple[int, int]) -> np.ndarray:
    """A mask as numbers; decoded only if its header says what its image makes expect."""
    try:
        with Image.open(BytesIO(content), formats=["PNG"]) as image:
            if image.mode != "L":
                raise PackageError(f"the mask {name} is no 8-bit grey PNG but {image.mode}")
            if image.size != size:
                raise PackageError(
                    f"the mask {name} has {image.size[0]} x {image.size[1]} pixels, its image "
                    f"{size[0]} x {size[1]}"
                )
            values = np.array(image)
        return check_label_image(values, 2, f"the mask {name}")
    except PackageError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise PackageError(f"the mask {name} is no PNG that can be read: {error}") from error
    except DataError as error:
        raise PackageError(str(error)) from error


def import_segment(
    root: Path, package: Package, options: SegmentOptions | None = None
) -> JobStatus:
    """Learn a packaged class in a knowledge base that no segmenter is using.

    Returns the status of the job, which may be that it was rejected.
    """
    images, masks = segment_pairs(package)
    base: KnowledgeBase[SegmentKnowledge] = KnowledgeBase(root, read_segments)
    try:
        labels = base.open().content.labels
        label = normalise_label(package.name)
        if (known := find_label(label, labels)) is not None:
            raise PackageError(f"a class {known!r} is known already: forget it first")
        if len(labels) >= MOST_CLASSES:
            raise PackageError(f"a mask of 8 bits has room for {MOST_CLASSES - 1} classes")
        sources = dict.fromkeys(images, package_source(package))
        job = Job(label, options=options or SegmentOptions(), sources=sources)
        return learn_here(base, job, (images, masks), (*labels, label))
    finally:
        base.close()
