# SPDX-License-Identifier: Apache-2.0
"""A learning job on disk, shared by the detector that asks for it and the process that learns.

    <jobs>/000012/
        job.json          what to learn; written last, so a job is there completely or not at all
        images/           new images of the class, PNG or JPEG
        progress.jsonl    one line per report, appended by the learning process
        cancel            an empty file: the job is asked to stop
        resume/           what the process resumes from after a crash; deleted when it is done
        result/           the new checkpoint, memory included
        result.json       how the process ended; written last by the process
        base, attempts    the knowledge version it started from, and how often it was started
        status.json       the final status; written last by the detector

Every state of a job, on disk, in logs and in LearningStatus messages, is a `JobState`. Imports
neither torch nor OpenCV.
"""

import json
import logging
import math
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from newfound_core.errors import ConfigError, DataError, NewfoundError, StorageError
from newfound_core.storage import atomic_directory, read_format, remove_leftovers, write_json

_log = logging.getLogger(__name__)
FORMAT = 2
CURRENT_KNOWLEDGE = "../../current"  # seen from a job: the version in use when it starts
_FINISHED_KEPT = 20
_IMAGE_NAME = re.compile(r"[\w-]{1,64}\.(png|jpg|jpeg)", re.ASCII)


class JobState(StrEnum):
    """Where a job is; the names are those of LearningStatus.STATE_* in lower case."""

    QUEUED = "queued"  # waits for another job
    PREPARING = "preparing"  # images are decoded and pass the frozen stages of the network
    TRAINING = "training"
    CALIBRATING = "calibrating"  # class means and rejection thresholds are fitted
    VALIDATING = "validating"  # old and new classes are tested on held-out images
    SWITCHING = "switching"  # the new knowledge comes into use between two frames
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"  # learned, but known classes got worse, or the new one is not recognised

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.REJECTED)


# Why a job ended without new knowledge.
Reason = Literal[
    "",  # it did not: the state is DONE, or it was cancelled
    "forgot_too_much",  # REJECTED: known classes lost more than allowed
    "not_recognised",  # REJECTED: none of its own held-out images is recognised
    "bad_job",  # job.json is damaged or asks for what cannot be
    "bad_images",  # too few of the images can be decoded
    "bad_knowledge",  # the checkpoint to start from is damaged or of another kind
    "disk_full",
    "training_failed",  # the loss became infinite or the like
    "internal_error",  # a defect; the message has the traceback
]


@dataclass(frozen=True)
class LearningOptions:
    """How the class is learned; the defaults suit twenty to thirty crops."""

    epochs: int = 0  # of training; 0: the network stays, the class gets a mean and a threshold
    learning_rate: float | None = None  # None: what was chosen for the method
    batch_size: int = 32
    crops: int = 3  # random variants of every new image to train on, besides the image itself
    frozen_stages: int | None = None  # stem and stages that never train; None: all but the last
    max_accuracy_loss: float = 0.1  # of the known classes, on average; 1 allows everything
    # Share of what was recognised of any one of them; 1: single classes are not looked at, and
    # not whether the new one is recognised.
    max_class_loss: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        _whole(self.epochs, "epochs", 0)
        _whole(self.batch_size, "batch_size", 2)
        _whole(self.crops, "crops", 0)
        _whole(self.seed, "seed", 0)
        if self.frozen_stages is not None:
            _whole(self.frozen_stages, "frozen_stages", 0)
        if self.learning_rate is not None:
            _number(self.learning_rate, "learning_rate", 0, 100)
        _number(self.max_accuracy_loss, "max_accuracy_loss", 0, 1)
        _number(self.max_class_loss, "max_class_loss", 0, 1)


@dataclass(frozen=True)
class Job:
    """One class to learn, or to learn better."""

    label: str
    knowledge: str = CURRENT_KNOWLEDGE  # checkpoint to start from, relative to the job's folder
    options: LearningOptions = field(default_factory=LearningOptions)
    sources: Mapping[str, str] = field(default_factory=dict)  # image name to where it came from
    unknown_id: str = ""  # the unknown object whose crops are among the images
    light: str = ""  # shift of the light its images were taken in, float32 in base64; empty: none
    anew: bool = False  # forget what is known of the class first: these images are all it is

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label.strip():
            raise ConfigError(f"the label must be a non-empty text, got {self.label!r}")
        for name in ("unknown_id", "light"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"{name} must be a text, got {getattr(self, name)!r}")
        if not isinstance(self.anew, bool):
            raise ConfigError(f"anew must be true or false, got {self.anew!r}")
        path = PurePosixPath(self.knowledge) if isinstance(self.knowledge, str) else None
        if path is None or path.is_absolute() or not self.knowledge or "\0" in self.knowledge:
            raise ConfigError(
                f"knowledge must be a path relative to the job's folder, got {self.knowledge!r}"
            )
        for name, source in self.sources.items():
            _check_image_name(name)
            if not isinstance(source, str):
                raise ConfigError(f"the source of {name} must be a text, got {source!r}")


@dataclass(frozen=True)
class JobProgress:
    """What the learning process reports while it works."""

    state: JobState
    fraction: float  # of the whole job, 0 to 1
    seconds_left: float | None  # estimated; None as long as nothing can be said


@dataclass(frozen=True)
class ClassAccuracy:
    """How well a class is recognised on held-out samples, as shares from 0 to 1."""

    samples: int
    before: float | None  # None for a class that was not known
    after: float

    @property
    def lost(self) -> float:
        """The share of what was recognised before that is not any more, 0 to 1."""
        return max(0.0, 1 - self.after / self.before) if self.before else 0.0


@dataclass(frozen=True)
class JobResult:
    """How the learning process ended."""

    state: JobState  # a final one
    reason: Reason = ""
    message: str = ""  # for people: why not, or what is doubtful; empty when all went well
    seconds: float = 0.0  # since the job was started or last resumed
    images_used: int = 0
    images_left_out: tuple[str, ...] = ()  # names of those that cannot be decoded
    accuracy: Mapping[str, ClassAccuracy] = field(default_factory=dict)  # by class

    def known_accuracy(self) -> tuple[float | None, float | None]:
        """Of the classes known before, all held-out samples together: before and after."""
        old = [a for a in self.accuracy.values() if a.before is not None and a.samples]
        count = sum(a.samples for a in old)
        if not count:
            return None, None
        before = sum(a.samples * (a.before or 0.0) for a in old) / count
        return before, sum(a.samples * a.after for a in old) / count


@dataclass(frozen=True)
class JobStatus:
    """A job as the robot sees it: where it is and, once it is final, what came out."""

    job: str  # id
    label: str
    state: JobState = JobState.QUEUED
    progress: float = 0.0  # of the whole job, 0 to 1
    seconds_left: float | None = None
    version: int = 0  # of the knowledge that it made; 0 until it is done
    message: str = ""
    accuracy_before: float | None = None  # of the known classes on the held-out memory
    accuracy_after: float | None = None
    storage_failed: bool = False  # the disk is full, or refuses what is written

    @classmethod
    def following(cls, job: str, label: str, progress: JobProgress | None) -> "JobStatus":
        """The status of a job whose process is at work."""
        if progress is None:
            return cls(job, label, JobState.PREPARING)
        fraction = min(progress.fraction, 0.99)
        return cls(job, label, progress.state, fraction, progress.seconds_left)

    @classmethod
    def ended(cls, job: str, label: str, result: JobResult, version: int = 0) -> "JobStatus":
        """The status of a job whose process has ended; `version` if its result is in use."""
        message = result.message or result.reason
        full = result.reason == "disk_full"
        accuracy = result.known_accuracy()
        return cls(job, label, result.state, 1.0, 0.0, version, message, *accuracy, full)

    @classmethod
    def failed(cls, job: str, label: str, error: Exception | str) -> "JobStatus":
        """The status of a job that an error has ended."""
        expected = isinstance(error, NewfoundError | str)
        message = str(error) if expected else f"internal error: {error}"
        full = isinstance(error, StorageError)
        return cls(job, label, JobState.FAILED, 1.0, message=message, storage_failed=full)


class JobFolder:
    """The folder of one job: the only code that reads or writes what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.images = path / "images"
        self.resume_path = path / "resume"
        self.result_path = path / "result"  # the new checkpoint
        self.log = path / "log.txt"  # what the process prints

    @classmethod
    def create(cls, path: Path, job: Job, images: Mapping[str, bytes]) -> "JobFolder":
        """Write a job that a learning process can take up; it appears completely or not at all."""
        if not images:
            raise DataError("a job needs at least one image")
        for name in images:
            _check_image_name(name)
        if unknown := sorted(set(job.sources) - set(images)):
            raise ConfigError(f"a source is given for {unknown[0]}, which is not among the images")
        with atomic_directory(path) as aside:
            (aside / "images").mkdir()
            for name, content in images.items():
                (aside / "images" / name).write_bytes(content)
            write_json(aside / "job.json", {"format": FORMAT, **asdict(job)})
        return cls(path)

    def read(self) -> Job:
        """What to learn; anything but what `create` wrote is a ConfigError."""
        path = self.path / "job.json"
        try:
            values = read_format(path, FORMAT)
            options = _only_fields(LearningOptions, values.pop("options", {}))
            return Job(**_only_fields(Job, values), options=LearningOptions(**options))
        except (DataError, OSError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is no job: {error}") from error

    def image_paths(self) -> list[Path]:
        """The images of a job, in a fixed order; files of other names are not opened."""
        found = sorted(self.images.iterdir()) if self.images.is_dir() else []
        return [p for p in found if _IMAGE_NAME.fullmatch(p.name) and not p.is_symlink()]

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
        for made in (*([self.images] if spent else []), self.resume_path, self.result_path):
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

    def create(self, job: Job, images: Mapping[str, bytes]) -> str:
        """Write a job and return its id; raises StorageError."""
        name = f"{max((int(name) for name in self._names()), default=0) + 1:06d}"
        try:
            JobFolder.create(self.root / name, job, images)
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


def _check_image_name(name: str) -> None:
    if not isinstance(name, str) or not _IMAGE_NAME.fullmatch(name):
        raise ConfigError(
            f"an image is named by letters, digits, _ and -, ending in .png or .jpg, not {name!r}"
        )


def _only_fields(kind: Any, values: Any) -> dict[str, Any]:
    known = {f.name for f in fields(kind)} - {"options"}
    if not isinstance(values, dict) or set(values) - known:
        raise ConfigError(f"a job has no {sorted(set(values) - known)}; known are {sorted(known)}")
    return values


def _whole(value: Any, name: str, smallest: int) -> None:
    if type(value) is not int or value < smallest:
        raise ConfigError(f"{name} must be a whole number of at least {smallest}, got {value!r}")


def _number(value: Any, name: str, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:
        raise ConfigError(f"{name} must be a number from {low} to {high}, got {value!r}")


def _number_in(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
