# SPDX-License-Identifier: Apache-2.0
"""A learning job on disk, shared by the detector that asks for it and the process that learns.

    <jobs>/000012/
        job.json          what to learn; written last, so a job is there completely or not at all
        images/           new images of the class, PNG or JPEG
        masks/            of a job for the segmenter: a PNG for each image, of the same stem
        progress.jsonl    one line per report, appended by the learning process
        cancel            an empty file: the job is asked to stop
        resume/           what the process resumes from after a crash; deleted when it is done
        result/           the new checkpoint, memory included
        result.json       how the process ended; written last by the process
        base, attempts    the knowledge version it started from, and how often it was started
        status.json       the final status; written last by the detector

Imports neither torch nor OpenCV.
"""

import json
import logging
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from newfound_core.errors import ConfigError, DataError, StorageError
from newfound_core.learning.job import (
    IMAGE_NAME,
    JOB_KINDS,
    ClassAccuracy,
    Job,
    JobProgress,
    JobResult,
    JobState,
    JobStatus,
    Reason,
    check_image_name,
)
from newfound_core.storage import atomic_directory, read_format, remove_leftovers, write_json

_log = logging.getLogger(__name__)
FORMAT = 2
_FINISHED_KEPT = 20
_NONE: Mapping[str, bytes] = MappingProxyType({})


class JobFolder:
    """The folder of one job: the only code that reads or writes what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.images = path / "images"
        self.masks = path / "masks"
        self.resume_path = path / "resume"
        self.result_path = path / "result"  # the new checkpoint
        self.log = path / "log.txt"  # what the process prints

    @classmethod
    def create(
        cls, path: Path, job: Job, images: Mapping[str, bytes], masks: Mapping[str, bytes] = _NONE
    ) -> "JobFolder":
        """Write a job that a learning process can take up; it appears completely or not at all.

        Masks are PNG files, by the names of their images; a job of kind "segment" needs them all.
        """
        if not images:
            raise DataError("a job needs at least one image")
        for name in images:
            check_image_name(name)
        if set(masks) != (set(images) if job.kind == "segment" else set()):
            raise ConfigError(f"a job of kind {job.kind!r} has {len(masks)} masks")
        if unknown := sorted(set(job.sources) - set(images)):
            raise ConfigError(f"a source is given for {unknown[0]}, which is not among the images")
        with atomic_directory(path) as aside:
            (aside / "images").mkdir()
            for name, content in images.items():
                (aside / "images" / name).write_bytes(content)
            if masks:
                (aside / "masks").mkdir()
            for name, content in masks.items():
                (aside / "masks" / name).with_suffix(".png").write_bytes(content)
            values = {"format": FORMAT, "kind": job.kind, **asdict(job)}
            write_json(aside / "job.json", values)
        return cls(path)

    def read(self) -> Job:
        """What to learn; anything but what `create` wrote is a ConfigError."""
        path = self.path / "job.json"
        try:
            values = read_format(path, FORMAT)
            kind = values.pop("kind", "class")
            if kind not in JOB_KINDS:
                raise ConfigError(f"there is no kind of job {kind!r}, only {list(JOB_KINDS)}")
            options = _only_fields(JOB_KINDS[kind], values.pop("options", {}))
            return Job(**_only_fields(Job, values), options=JOB_KINDS[kind](**options))
        except (DataError, OSError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is no job: {error}") from error

    def image_paths(self) -> list[Path]:
        """The images of a job, in a fixed order; files of other names are not opened."""
        found = sorted(self.images.iterdir()) if self.images.is_dir() else []
        return [p for p in found if IMAGE_NAME.fullmatch(p.name) and not p.is_symlink()]

    def mask_path(self, image: Path) -> Path:
        """Where the mask of an image is."""
        return (self.masks / image.name).with_suffix(".png")

    # Cancelling: by either side.

    def cancel(self) -> None:
        """Ask the learning process to stop before its next batch."""
        (self.path / "cancel").touch()

    @property
    def cancelled(self) -> bool:
        """Whether the job was asked to stop."""
        return (self.path / "cancel").exists()

    # The process reports.

    def append_progress(self, progress: JobProgress) -> None:
        """Add a line; a reader never sees half of one as a report."""
        line = json.dumps({"time": round(time.time(), 3), **asdict(progress)}) + "\n"
        with (self.path / "progress.jsonl").open("a", encoding="utf-8") as file:
            file.write(line)

    def progress(self) -> JobProgress | None:
        """The last report, if there is one."""
        try:
            path = self.path / "progress.jsonl"
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        for line in reversed(text.splitlines()):
            try:
                values = json.loads(line)
                state = JobState(values["state"])
                return JobProgress(state, values["fraction"], values["seconds_left"])
            except (ValueError, KeyError, TypeError):
                continue  # cut off by a crash
        return None

    def write_result(self, result: JobResult) -> None:
        """End the process's part."""
        write_json(self.path / "result.json", {"format": FORMAT, **asdict(result)})

    def result(self) -> JobResult | None:
        """How the process ended; None while it has not. A damaged result is a failure."""
        path = self.path / "result.json"
        try:
            values = read_format(path, FORMAT)
            values["state"] = JobState(values["state"])
            if not values["state"].final or values["reason"] not in get_args(Reason):
                raise ValueError(f"{values['state']} {values['reason']!r} is no end of a job")
            accuracy = {k: ClassAccuracy(**v) for k, v in values.pop("accuracy").items()}
            left_out = tuple(values.pop("images_left_out"))
            return JobResult(**values, images_left_out=left_out, accuracy=accuracy)
        except FileNotFoundError:
            return None
        except (DataError, ValueError, KeyError, TypeError, AttributeError) as error:
            return JobResult(JobState.FAILED, "internal_error", f"{path} is damaged: {error}")

    # The detector starts it, and ends it.

    def begin(self, version: int) -> int:
        """Note that a process starts from a version; return how many times it was started.

        What an earlier process made of another version is of no use and is removed, and so is
        what it was writing when it was killed.
        """
        remove_leftovers(self.path)
        attempts = _number_in(self.path / "attempts") + 1
        try:
            if self.base != version:
                self.reset()
            (self.path / "attempts").write_text(str(attempts))
            (self.path / "base").write_text(str(version))
        except OSError as error:
            raise StorageError(f"{self.path} could not be written: {error}") from error
        return attempts

    def interrupted(self) -> None:
        """Note that a process was ended by us: that start does not count as a failed one."""
        with suppress(OSError):
            path = self.path / "attempts"
            path.write_text(str(max(0, _number_in(path) - 1)))

    @property
    def base(self) -> int:
        """The version that the process started from; 0 if it was never started."""
        return _number_in(self.path / "base")

    def reset(self) -> None:
        """Remove everything that a process made."""
        (self.path / "result.json").unlink(missing_ok=True)
        for made in (self.resume_path, self.result_path):
            shutil.rmtree(made, ignore_errors=True)

    def finish(self, status: JobStatus) -> None:
        """Let go of what takes room and write the final status; raises OSError."""
        # The images of a job that failed are a person's work: they stay until the job is old.
        spent = status.state in (JobState.DONE, JobState.CANCELLED)
        given = (self.images, self.masks) if spent else ()
        for made in (*given, self.resume_path, self.result_path):
            shutil.rmtree(made, ignore_errors=True)
        remove_leftovers(self.path)
        write_json(self.path / "status.json", {"format": FORMAT, **asdict(status)})

    @property
    def finished(self) -> bool:
        """Whether it has a final status."""
        return (self.path / "status.json").exists()

    def status(self) -> JobStatus | None:
        """The final status, if it has one that can be read."""
        try:
            values = read_format(self.path / "status.json", FORMAT)
            return JobStatus(**{**values, "state": JobState(values["state"])})
        except (DataError, OSError, ValueError, KeyError, TypeError):
            return None


class JobFolders:
    """All jobs of a knowledge base, in the order they were asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        remove_leftovers(root)

    def __getitem__(self, name: str) -> JobFolder:
        return JobFolder(self.root / name)

    def create(
        self, job: Job, images: Mapping[str, bytes], masks: Mapping[str, bytes] = _NONE
    ) -> str:
        """Write a job and return its id; raises StorageError."""
        name = f"{max((int(name) for name in self._names()), default=0) + 1:06d}"
        try:
            JobFolder.create(self.root / name, job, images, masks)
        except OSError as error:
            raise StorageError(f"the job could not be written: {error}") from error
        return name

    def unfinished(self) -> dict[str, Job | None]:
        """Jobs without a final status, oldest first; None for one that cannot be read."""
        return {name: self.job(name) for name in self._names() if not self[name].finished}

    def job(self, name: str) -> Job | None:
        """What a job is to learn; None if it cannot be read."""
        try:
            return self[name].read()
        except ConfigError:
            return None

    def finish(self, name: str, status: JobStatus) -> None:
        """Write the final status of a job; those of old jobs are removed."""
        try:
            self[name].finish(status)
        except OSError as error:
            _log.error("job %s will be looked at again after a restart: %s", name, error)
        finished = [other for other in self._names() if self[other].finished]
        for old in finished[:-_FINISHED_KEPT]:
            shutil.rmtree(self.root / old, ignore_errors=True)

    def status(self, name: str) -> JobStatus | None:
        """The final status of a job, if there is such a job and it has one."""
        return self[name].status() if name in self._names() else None

    def _names(self) -> list[str]:
        try:
            return sorted(e.name for e in self.root.iterdir() if e.name.isdigit() and e.is_dir())
        except FileNotFoundError as error:
            raise StorageError(f"the folder of jobs is gone: {error}") from error


def _only_fields(kind: Any, values: Any) -> dict[str, Any]:
    known = {f.name for f in fields(kind)} - {"options"}
    if not isinstance(values, dict) or set(values) - known:
        raise ConfigError(f"a job has no {sorted(set(values) - known)}; known are {sorted(known)}")
    return values


def _number_in(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
