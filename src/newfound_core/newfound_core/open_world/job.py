# SPDX-License-Identifier: Apache-2.0
"""A learning job on disk: what a robot wants to learn, how far it is, what came out.

    job.json          what to learn; written last, so a job is there completely or not at all
    images/           new images of the class, PNG or JPEG
    progress.jsonl    one line per report, appended by the learning process
    cancel            an empty file, put there by whoever wants the job to stop
    state/            what the process resumes from after a crash; deleted when it is done
    result/           the new checkpoint, memory included
    result.json       the outcome; written last

Both sides of a job use this module: the node that asks for it and follows it, and the process
that learns. It imports neither torch nor OpenCV.
"""

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from newfound_core.errors import ConfigError, DataError
from newfound_core.storage import atomic_directory, read_format, write_json

FORMAT = 1
JOB_NAME, RESULT_NAME, PROGRESS_NAME = "job.json", "result.json", "progress.jsonl"
IMAGES_NAME, STATE_NAME, CHECKPOINT_NAME, CANCEL_NAME = "images", "state", "result", "cancel"
_IMAGE_NAME = re.compile(r"[\w-]{1,64}\.(png|jpg|jpeg)", re.ASCII)

Outcome = Literal[
    "learned",  # result/ holds the new knowledge
    "forgot_too_much",  # it was learned, but known classes lost more than allowed; no result/
    "not_recognised",  # it was learned, but not one of its own held-out images is; no result/
    "cancelled",
    "bad_job",  # job.json is damaged or asks for what cannot be
    "bad_images",  # too few of the images can be decoded
    "bad_knowledge",  # the checkpoint to start from is damaged or of another kind
    "disk_full",
    "training_failed",  # the loss became infinite or the like
    "internal_error",  # a fault of newfound; the message has the details
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
    knowledge: str  # checkpoint to start from, relative to the job's folder: ../../versions/000007
    options: LearningOptions = field(default_factory=LearningOptions)
    sources: Mapping[str, str] = field(default_factory=dict)  # image name to where it came from

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label.strip():
            raise ConfigError(f"the label must be a non-empty text, got {self.label!r}")
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
    """Where a job is."""

    stage: str  # loading, features, training, means, thresholds, checking, saving
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
    """What came out."""

    outcome: Outcome
    message: str = ""  # for people: why not, or what is doubtful; empty when all went well
    seconds: float = 0.0  # since the job was started or last resumed
    images_used: int = 0
    images_left_out: tuple[str, ...] = ()  # names of those that cannot be decoded
    accuracy: Mapping[str, ClassAccuracy] = field(default_factory=dict)  # by class

    @property
    def learned(self) -> bool:
        """Whether there is new knowledge to switch to."""
        return self.outcome == "learned"


def create_job(directory: Path, job: Job, images: Mapping[str, bytes]) -> Path:
    """Writes a job that a learning process can take up; it appears completely or not at all."""
    if not images:
        raise DataError("a job needs at least one image")
    for name in images:
        _check_image_name(name)
    if unknown := sorted(set(job.sources) - set(images)):
        raise ConfigError(f"a source is given for {unknown[0]}, which is not among the images")
    with atomic_directory(directory) as aside:
        (aside / IMAGES_NAME).mkdir()
        for name, content in images.items():
            (aside / IMAGES_NAME / name).write_bytes(content)
        write_json(aside / JOB_NAME, {"format": FORMAT, **asdict(job)})
    return directory


def read_job(directory: Path) -> Job:
    """Reads what `create_job` wrote; anything else is a ConfigError."""
    try:
        values = read_format(directory / JOB_NAME, FORMAT)
        options = _only_fields(LearningOptions, values.pop("options", {}))
        return Job(**_only_fields(Job, values), options=LearningOptions(**options))
    except (DataError, OSError, TypeError, AttributeError) as error:
        raise ConfigError(f"{directory / JOB_NAME} is no job: {error}") from error


def image_paths(directory: Path) -> list[Path]:
    """The images of a job, in a fixed order; files of other names are not opened."""
    folder = directory / IMAGES_NAME
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [p for p in found if _IMAGE_NAME.fullmatch(p.name) and not p.is_symlink()]


def cancel(directory: Path) -> None:
    """Asks the learning process to stop before its next batch."""
    (directory / CANCEL_NAME).touch()


def is_cancelled(directory: Path) -> bool:
    """Whether somebody asked to stop."""
    return (directory / CANCEL_NAME).exists()


def append_progress(directory: Path, progress: JobProgress) -> None:
    """Adds a line; a reader never sees half of one as a report."""
    line = json.dumps({"time": round(time.time(), 3), **asdict(progress)}) + "\n"
    with (directory / PROGRESS_NAME).open("a", encoding="utf-8") as file:
        file.write(line)


def read_progress(directory: Path) -> JobProgress | None:
    """The last report, if there is one."""
    try:
        text = (directory / PROGRESS_NAME).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    for line in reversed(text.splitlines()):
        try:
            values = json.loads(line)
            return JobProgress(values["stage"], values["fraction"], values["seconds_left"])
        except (ValueError, KeyError, TypeError):
            continue  # cut off by a crash
    return None


def write_result(directory: Path, result: JobResult) -> None:
    """Ends the job."""
    write_json(directory / RESULT_NAME, {"format": FORMAT, **asdict(result)})


def read_result(directory: Path) -> JobResult | None:
    """The outcome, None while the job is not finished; a DataError if it is damaged."""
    path = directory / RESULT_NAME
    if not path.exists():
        return None
    try:
        values = read_format(path, FORMAT)
        if values["outcome"] not in get_args(Outcome):
            raise DataError(f"there is no outcome {values['outcome']!r}")
        accuracy = {k: ClassAccuracy(**v) for k, v in values.pop("accuracy").items()}
        left_out = tuple(values.pop("images_left_out"))
        return JobResult(**values, images_left_out=left_out, accuracy=accuracy)
    except (DataError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged: {error}") from error


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


def outcomes() -> Sequence[str]:
    """Every outcome there is."""
    return get_args(Outcome)
