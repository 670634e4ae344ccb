# SPDX-License-Identifier: Apache-2.0
"""The jobs of a knowledge base on disk: `jobs/000012/`, in the order they were asked for.

Besides what `newfound_core.open_world.job` defines, a folder holds

    base           the version of knowledge that the process started from
    attempts       how often it was started
    status.json    the final status; written last, after which nothing is done about the job
"""

import json
import logging
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from newfound_core.errors import DataError, StorageError
from newfound_core.open_world import job as jobs
from newfound_nodes.open_world.job_status import JobStatus

_log = logging.getLogger(__name__)
CURRENT_KNOWLEDGE = "../../current"  # as seen from a job: whatever is current when it starts
_UNKNOWN = "unknown "  # before the id, as the source of an image
_STATUS, _BASE, _ATTEMPTS = "status.json", "base", "attempts"
_FINISHED_KEPT = 20


class JobFolders:
    """Makes, lists and tidies job folders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)

    def folder(self, job: str) -> Path:
        """Where a job is."""
        return self.root / job

    def create(self, job: jobs.Job, images: Mapping[str, bytes]) -> str:
        """Write a job and return its id; raises StorageError."""
        number = max((int(name) for name in self._names()), default=0) + 1
        name = f"{number:06d}"
        try:
            jobs.create_job(self.folder(name), job, images)
        except OSError as error:
            raise StorageError(f"the job could not be written: {error}") from error
        return name

    def unfinished(self) -> list[str]:
        """Ids of jobs without a final status, oldest first."""
        return [name for name in self._names() if not (self.folder(name) / _STATUS).exists()]

    def label(self, name: str) -> str:
        """What a job is to learn; empty if it cannot be read."""
        try:
            return jobs.read_job(self.folder(name)).label
        except jobs.ConfigError:
            return ""

    def unknown_id(self, name: str) -> str:
        """The unknown object that a job learns; empty if there is none."""
        try:
            return unknown_of(jobs.read_job(self.folder(name)))
        except jobs.ConfigError:
            return ""

    def begin(self, name: str, version: int) -> int:
        """Note that a process starts from a version; return how many times it was started.

        What an earlier process made of another version is of no use and is removed, and so is
        what it was writing when it was killed.
        """
        folder = self.folder(name)
        _sweep(folder)
        attempts = _number(folder / _ATTEMPTS) + 1
        try:
            if self.base(name) != version:
                self.reset(name)
            (folder / _ATTEMPTS).write_text(str(attempts))
            (folder / _BASE).write_text(str(version))
        except OSError as error:
            raise StorageError(f"{folder} could not be written: {error}") from error
        return attempts

    def interrupted(self, name: str) -> None:
        """Note that a process was ended by us: that start does not count as a failed one."""
        with suppress(OSError):
            path = self.folder(name) / _ATTEMPTS
            path.write_text(str(max(0, _number(path) - 1)))

    def base(self, name: str) -> int:
        """The version that the process started from; 0 if it was never started."""
        return _number(self.folder(name) / _BASE)

    def reset(self, name: str) -> None:
        """Remove everything that a process made."""
        folder = self.folder(name)
        (folder / jobs.RESULT_NAME).unlink(missing_ok=True)
        for made in (jobs.STATE_NAME, jobs.CHECKPOINT_NAME):
            shutil.rmtree(folder / made, ignore_errors=True)

    def finish(self, name: str, status: JobStatus) -> None:
        """Let go of what takes room and write the final status; old jobs are removed."""
        folder = self.folder(name)
        # The images of a job that failed are somebody's work: they stay until the job is old.
        spent = [jobs.IMAGES_NAME] if status.stage in ("done", "cancelled") else []
        for made in (*spent, jobs.STATE_NAME, jobs.CHECKPOINT_NAME):
            shutil.rmtree(folder / made, ignore_errors=True)
        _sweep(folder)
        aside = folder / f".{_STATUS}"
        try:  # after the disk has got room again
            aside.write_text(json.dumps(asdict(status), ensure_ascii=False), encoding="utf-8")
            aside.replace(folder / _STATUS)
        except OSError as error:
            _log.error("job %s will be looked at again after a restart: %s", name, error)
        finished = [other for other in self._names() if (self.folder(other) / _STATUS).exists()]
        for old in finished[:-_FINISHED_KEPT]:
            shutil.rmtree(self.folder(old), ignore_errors=True)

    def status(self, name: str) -> JobStatus | None:
        """The final status of a job, if it has one that can be read."""
        if name not in self._names():
            return None
        try:
            return JobStatus(**json.loads((self.folder(name) / _STATUS).read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def result(self, name: str) -> jobs.JobResult | None:
        """What the process says; a damaged result is a failure with that reason."""
        try:
            return jobs.read_result(self.folder(name))
        except DataError as error:
            return jobs.JobResult("internal_error", str(error))

    def _names(self) -> list[str]:
        return sorted(e.name for e in self.root.iterdir() if e.name.isdigit() and e.is_dir())


def source_unknown(unknown_id: str) -> str:
    """The source of images that are crops of an unknown object."""
    return f"{_UNKNOWN}{unknown_id}"


def unknown_of(job: jobs.Job) -> str:
    """The unknown object that a job learns; empty if it was asked for with images alone."""
    ids = (s.removeprefix(_UNKNOWN) for s in job.sources.values() if s.startswith(_UNKNOWN))
    return next(ids, "")


def _sweep(folder: Path) -> None:
    """Remove what a process was writing when it was killed: its names are hidden ones."""
    for entry in folder.glob(".*"):
        with suppress(OSError):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
