# SPDX-License-Identifier: Apache-2.0
"""A learning job: what to learn and how, how far it is, how it ended.

Every state of a job, on disk, in logs and in LearningStatus messages, is a `JobState`. Imports
neither torch nor OpenCV.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Literal

from newfound_core.errors import ConfigError, NewfoundError, StorageError

CURRENT_KNOWLEDGE = "../../current"  # seen from a job: the version in use when it starts
IMAGE_NAME = re.compile(r"[\w-]{1,64}\.(png|jpg|jpeg)", re.ASCII)


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


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """When the result of a job is used; what all kinds of jobs have."""

    max_accuracy_loss: float = 0.1  # of the known classes, on average; 1 allows everything
    # Share of what was recognised of any one of them; 1: single classes are not looked at, and
    # not whether the new one is recognised.
    max_class_loss: float = 0.5
    min_new_accuracy: float = 0.0  # of the new class, to be exceeded
    seed: int = 0

    def __post_init__(self) -> None:
        _whole(self.seed, "seed", 0)
        for name in ("max_accuracy_loss", "max_class_loss", "min_new_accuracy"):
            _number(getattr(self, name), name, 0, 1)

    @property
    def trains(self) -> bool:
        """Whether the network's weights change."""
        return True


@dataclass(frozen=True, kw_only=True)
class LearningOptions(JobOptions):
    """How a class of objects is learned; the defaults suit twenty to thirty crops."""

    epochs: int = 0  # of training; 0: the network stays, the class gets a mean and a threshold
    learning_rate: float | None = None  # None: what was chosen for the method
    batch_size: int = 32
    crops: int = 3  # random variants of every new image to train on, besides the image itself
    frozen_stages: int | None = None  # stem and stages that never train; None: all but the last

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole(self.epochs, "epochs", 0)
        _whole(self.batch_size, "batch_size", 2)
        _whole(self.crops, "crops", 0)
        if self.frozen_stages is not None:
            _whole(self.frozen_stages, "frozen_stages", 0)
        if self.learning_rate is not None:
            _number(self.learning_rate, "learning_rate", 0, 100)

    @property
    def trains(self) -> bool:
        """Whether the network's weights change."""
        return self.epochs > 0


@dataclass(frozen=True, kw_only=True)
class SegmentOptions(JobOptions):
    """How a class of pixels is learned; None: as newfound_core.segmentation has chosen it."""

    iterations: int | None = None  # steps of training
    variants: int | None = None  # random variants of every image
    frozen_stages: int | None = None  # stem and stages that never train; None: all of them
    min_new_accuracy: float = 0.1  # intersection over union

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, smallest in (("iterations", 1), ("variants", 0), ("frozen_stages", 0)):
            if (value := getattr(self, name)) is not None:
                _whole(value, name, smallest)


JOB_KINDS: Mapping[str, type[JobOptions]] = {"class": LearningOptions, "segment": SegmentOptions}


@dataclass(frozen=True)
class Job:
    """One class to learn, or to learn better."""

    label: str
    knowledge: str = CURRENT_KNOWLEDGE  # checkpoint to start from, relative to the job's folder
    options: JobOptions = field(default_factory=LearningOptions)  # their type says what is learned
    sources: Mapping[str, str] = field(default_factory=dict)  # image name to where it came from
    unknown_id: str = ""  # the unknown object whose crops are among the images
    light: str = ""  # shift of the light its images were taken in, float32 in base64; empty: none
    anew: bool = False  # forget what is known of the class first: these images are all it is

    @property
    def kind(self) -> str:
        """What is learned: "class", an object by its crops, or "segment", pixels by masks."""
        return next(name for name, kind in JOB_KINDS.items() if isinstance(self.options, kind))

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
            check_image_name(name)
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


def check_image_name(name: str) -> None:
    """A ConfigError for what is no plain name of an image file."""
    if not isinstance(name, str) or not IMAGE_NAME.fullmatch(name):
        raise ConfigError(
            f"an image is named by letters, digits, _ and -, ending in .png or .jpg, not {name!r}"
        )


def _whole(value: Any, name: str, smallest: int) -> None:
    if type(value) is not int or value < smallest:
        raise ConfigError(f"{name} must be a whole number of at least {smallest}, got {value!r}")


def _number(value: Any, name: str, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:
        raise ConfigError(f"{name} must be a number from {low} to {high}, got {value!r}")
