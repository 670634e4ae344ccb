# SPDX-License-Identifier: Apache-2.0
"""What imports of all kinds of classes have in common: images, a learning job without a node."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.knowledge.labels import label_problem, normalise_label
from newfound_core.learning.job import Job, JobState, JobStatus
from newfound_core.learning.job_folder import JobFolders
from newfound_core.learning.learn import finish_job
from newfound_core.packages.archive import Package, PackageError

MOST_IMAGES = 200


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
    return entries


def package_source(package: Package) -> str:
    """What the knowledge says of where an image came from."""
    robot = package.provenance.get("robot", "")
    return f"package {package.digest[:12]} {robot}".strip()
