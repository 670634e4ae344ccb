# SPDX-License-Identifier: Apache-2.0
"""A learned class as a package, and its way into another knowledge base.

A package of a class has its remembered images. The robot that imports it learns the class from
them, with its own network and the checks of any other job: so the network may be another one, and
what does not fit is rejected and leaves everything as it was.
"""

import time
from pathlib import Path
from typing import Any

import torch

from newfound_core.checkpoint import MEMORY_NAME
from newfound_core.knowledge.contents import Knowledge, read_knowledge, write_learned_in
from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.knowledge.labels import find_label, normalise_label
from newfound_core.learning.job import Job, JobStatus, LearningOptions
from newfound_core.open_world.memory import Memory
from newfound_core.open_world.memory_store import encoded, load_memory, sample_id
from newfound_core.packages.archive import Package, PackageError
from newfound_core.packages.imports import (
    check_image,
    learn_here,
    listed_images,
    package_source,
)


def export_class(version: Path, label: str, robot: str = "") -> Package:
    """A class of a version of a knowledge base, or of any open-world checkpoint."""
    memory = load_memory(version / MEMORY_NAME)
    known = find_label(label, memory.labels)
    if known is None:
        raise PackageError(
            f"no class {label!r} with remembered images; there are {', '.join(memory.labels[:20])}"
        )
    return _package(memory, known, robot)


def _package(memory: Memory, label: str, robot: str) -> Package:
    entries: list[dict[str, Any]] = []
    files: dict[str, bytes] = {}
    for sample in memory.samples(label):
        name = f"images/{sample_id(sample)}"
        if name in files:  # remembered twice, as of a camera that shows the same again
            continue
        files[name] = encoded(sample)[0]
        entries.append({"file": name, "held_out": sample.held_out})
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Package("class", label, {"images": entries}, files, {"made": made, "robot": robot})


def class_images(package: Package) -> dict[str, bytes]:
    """The images of a class, by names that a job takes; a PackageError if it is none."""
    entries = listed_images(package, "class")
    found: dict[str, bytes] = {}
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) != {"file", "held_out"}:
            raise PackageError("its list of images has a wrong form")
        name, held_out = entry["file"], entry["held_out"]
        if not isinstance(name, str) or name not in package.files:
            raise PackageError(f"the image {str(name)[:100]!r} is not in it")
        if type(held_out) is not bool or name.removeprefix("images/") in found:
            raise PackageError("its list of images has a wrong form")
        check_image(name, package.files[name])
        found[name.removeprefix("images/")] = package.files[name]
    if set(package.files) != {entry["file"] for entry in entries}:
        raise PackageError("it has files that are no images of the class")
    return found


def import_class(
    root: Path, package: Package, options: LearningOptions | None = None, *, extend: bool = False
) -> JobStatus:
    """Learn a packaged class in a knowledge base that no node is using.

    Returns the status of the job, which may be that it was rejected. `extend`: a class that is
    known already gets further views.
    """
    images = class_images(package)
    base: KnowledgeBase[Knowledge] = KnowledgeBase(root, read_knowledge)
    try:
        opened = base.open()
        knowledge = opened.content
        if not knowledge.can_learn:
            raise PackageError(f"{root} came without a memory: it would forget what it knows")
        label = normalise_label(package.name)
        known = find_label(label, knowledge.labels)
        if known is not None and not extend:
            raise PackageError(f"a class {known!r} is known already: --extend adds to it")
        label = known or label
        expected = [*knowledge.labels, *([] if known else [label])]
        none = torch.zeros(knowledge.model.head.dimension)
        lights = {**knowledge.learned_in, **({} if known else {label: none})}
        sources = dict.fromkeys(images, package_source(package))
        job = Job(label, options=options or LearningOptions(), sources=sources)
        return learn_here(
            base, job, (images,), expected, lambda result: write_learned_in(result, lights)
        )
    finally:
        base.close()
