# SPDX-License-Identifier: Apache-2.0
"""The learning process: one incremental step from a job directory, for the robot.

Whatever happens is said in the job's `result.json`: the node that follows it has nothing else.
"""

import argparse
import errno
import logging
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import cv2
import torch

from newfound_core.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    NewfoundError,
    TrainingError,
)
from newfound_core.learning.class_learning import (
    Knowledge,
    learn_class,
    load_knowledge,
    reduced,
    save_learned,
    without,
)
from newfound_core.learning.job import ClassAccuracy, Job, JobProgress, JobResult, JobState, Reason
from newfound_core.learning.job_folder import JobFolder
from newfound_core.learning.validation import validate
from newfound_core.models import check_device
from newfound_core.open_world.memory import Sample
from newfound_core.open_world.step_config import LearningCancelledError

_log = logging.getLogger(__name__)
_RESERVE_NAME, _RESERVE_BYTES = ".result.json.part-reserve", 256 * 1024
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CPU = torch.device("cpu")
_FEWEST_IMAGES = 2  # one to learn from, one to hold out


class BadImagesError(DataError):
    """Too few of a job's images can be used."""


class BadKnowledgeError(CheckpointError):
    """The checkpoint that a job starts from cannot be used."""


_REASONS: dict[type[Exception], Reason] = {
    BadImagesError: "bad_images",
    BadKnowledgeError: "bad_knowledge",
    TrainingError: "training_failed",
    ConfigError: "bad_job",
}


# Shares of the whole job by phase, as measured with thirty new images, a memory of 400 and eight
# epochs. A job that does not train is the other phases alone.
PHASES = {
    "loading": (0.05, JobState.PREPARING),
    "features": (0.45, JobState.PREPARING),
    "training": (0.35, JobState.TRAINING),
    "means": (0.05, JobState.CALIBRATING),
    "thresholds": (0.02, JobState.CALIBRATING),
    "checking": (0.05, JobState.VALIDATING),
    "saving": (0.03, JobState.VALIDATING),
}
# With twenty images and their masks: the network trains, and has neither means nor thresholds.
SEGMENT_PHASES = {
    "loading": (0.02, JobState.PREPARING),
    "features": (0.2, JobState.PREPARING),
    "training": (0.7, JobState.TRAINING),
    "checking": (0.06, JobState.VALIDATING),
    "saving": (0.02, JobState.VALIDATING),
}
Phases = Mapping[str, tuple[float, JobState]]
_INTERVAL = 0.25  # s between two lines, at least, within a phase


class InterruptedJobError(NewfoundError):
    """The process that learns is about to end: the job is to be resumed by another."""


def _never() -> bool:
    return False


class JobReporter:
    """Writes progress, and stops the job when it is asked to."""

    def __init__(
        self,
        folder: JobFolder,
        *,
        trains: bool,
        interrupted: Callable[[], bool] = _never,
        phases: Phases = PHASES,
    ) -> None:
        self._folder, self._interrupted, self._phases = folder, interrupted, phases
        kept = {n: share for n, (share, _) in phases.items() if trains or n != "training"}
        self._shares = {name: share / sum(kept.values()) for name, share in kept.items()}
        self._started = time.monotonic()
        self._first: float | None = None  # fraction at which this process began to work
        self._phase, self._last = "", 0.0

    def report(self, phase: str, done: int = 0, total: int = 1) -> None:
        """Say how much of a phase is done."""
        if self._folder.cancelled:
            raise LearningCancelledError(f"stopped in {phase}: the job was cancelled")
        if self._interrupted():
            raise InterruptedJobError(f"interrupted in {phase}")
        now = time.monotonic()
        if phase == self._phase and done < total and now - self._last < _INTERVAL:
            return
        self._phase, self._last = phase, now
        fraction = min(1.0, self._before(phase) + self._shares[phase] * done / max(total, 1))
        state, left = self._phases[phase][1], self._seconds_left(fraction)
        self._folder.append_progress(JobProgress(state, round(fraction, 4), left))

    def _before(self, phase: str) -> float:
        names = list(self._shares)
        return sum(self._shares[name] for name in names[: names.index(phase)])

    def _seconds_left(self, fraction: float) -> float | None:
        """From the speed of this process alone: what was done before a resume says nothing."""
        if self._first is None:
            self._first = fraction
        gained = fraction - self._first
        if gained < 0.02:
            return None
        elapsed = time.monotonic() - self._started
        return round(elapsed / gained * (1 - fraction), 1)


def main(arguments: Sequence[str]) -> int:
    """Take up a job; 0 if the class was learned, 3 if it was not, 2 for a wrong command line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser(
        "python -m newfound_core.learning", description="Learn one class from a job directory."
    )
    parser.add_argument("--job", type=Path, required=True, help="see newfound_core.learning.job")
    parser.add_argument("--threads", type=int, default=0, help="cores to use; 0: all")
    parser.add_argument("--niceness", type=int, default=10, help="added to that of the caller")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1; never chosen silently")
    options = parser.parse_args(arguments)
    try:
        if min(options.threads, options.niceness) < 0:
            raise ConfigError("--threads and --niceness must not be negative")
        if not options.job.is_dir():
            raise ConfigError(f"--job must name a folder, got {str(options.job)!r}")
        device = check_device(options.device)
    except ConfigError as error:
        print(f"learn: {error}", file=sys.stderr)
        return 2
    os.nice(options.niceness)
    if options.threads:
        torch.set_num_threads(options.threads)
    result = finish_job(options.job, device)
    print(f"learn: {result.state} {result.reason} {result.message}".strip(), file=sys.stderr)
    return 0 if result.state is JobState.DONE else 3


def finish_job(
    path: Path, device: torch.device = _CPU, interrupted: Callable[[], bool] = _never
) -> JobResult:
    """Start, resume or merely report a job; its result is on disk afterwards.

    When `interrupted` it raises an InterruptedJobError soon, and leaves the job to be resumed.
    """
    folder = JobFolder(path)
    done = folder.result()
    if done is not None:
        return done
    started = time.monotonic()
    _reserve(path)
    try:
        result = _work(folder, started, device, interrupted)
    except InterruptedJobError:
        raise
    except Exception as error:  # the node must hear of everything, defects of ours included
        result = _failure(error, time.monotonic() - started)
        _log.debug("the job failed", exc_info=error)
    (path / _RESERVE_NAME).unlink(missing_ok=True)
    folder.write_result(result)
    shutil.rmtree(folder.resume_path, ignore_errors=True)
    return result


@dataclass(frozen=True)
class _Learned:
    """What came out of learning, before it is judged."""

    accuracy: Mapping[str, ClassAccuracy]
    images_used: int
    images_left_out: tuple[str, ...]
    save: Callable[[], object]  # the checkpoint, to the job's folder


def _work(
    folder: JobFolder, started: float, device: torch.device, interrupted: Callable[[], bool]
) -> JobResult:
    job = folder.read()
    segment = job.kind == "segment"
    reporter = JobReporter(
        folder,
        trains=job.options.trains,
        interrupted=interrupted,
        phases=SEGMENT_PHASES if segment else PHASES,
    )
    reporter.report("loading")
    learn = _learn_segment if segment else _learn_object
    learned = learn(folder, job, device, reporter)
    state, reason, message = validate(learned.accuracy, job.options)
    if state is JobState.DONE:
        reporter.report("saving")
        learned.save()
        reporter.report("saving", 1, 1)
    return JobResult(
        state,
        reason,
        message,
        round(time.monotonic() - started, 1),
        learned.images_used,
        learned.images_left_out,
        learned.accuracy,
    )


def _learn_object(
    folder: JobFolder, job: Job, device: torch.device, reporter: JobReporter
) -> _Learned:
    knowledge = _knowledge(folder.path / job.knowledge, device)
    if job.anew and job.label in knowledge.model.labels:
        knowledge = without(knowledge, job.label)
    new, left_out = _new_samples(folder, job, knowledge.loaded.metadata.preprocessing.size)
    learned = learn_class(knowledge, job, new, folder.resume_path, reporter)
    return _Learned(
        learned.accuracy,
        len(new),
        left_out,
        lambda: save_learned(folder.result_path, learned, knowledge, job, len(new)),
    )


def _learn_segment(
    folder: JobFolder, job: Job, device: torch.device, reporter: JobReporter
) -> _Learned:
    from newfound_core.segmentation import learning_job

    try:
        start = learning_job.read_start(folder.path / job.knowledge, device)
    except NewfoundError as error:
        raise BadKnowledgeError(str(error)) from error
    try:
        learned = learning_job.learn(start, folder, job, reporter.report)
    except DataError as error:
        raise BadImagesError(str(error)) from error
    return _Learned(
        learned.accuracy,
        learned.images_used,
        (),
        lambda: learning_job.save(folder.result_path, learned, start, job.label),
    )


def _knowledge(directory: Path, device: torch.device) -> Knowledge:
    try:
        return load_knowledge(directory, device)
    except NewfoundError as error:
        raise BadKnowledgeError(str(error)) from error


def _new_samples(folder: JobFolder, job: Job, size: int) -> tuple[list[Sample], tuple[str, ...]]:
    """Images that can be decoded, no larger than they need be, and the names of the others.

    Of several that are the same one is kept: the others would be held out to check it by itself.
    """
    samples, left_out, contents = [], [], set()
    paths = folder.image_paths()
    for path in paths:
        content = path.read_bytes()
        if content in contents:
            continue
        contents.add(content)
        sample = Sample(content, job.label, job.sources.get(path.name, "camera"))
        try:
            samples.append(reduced(sample, size))
        except (DataError, cv2.error):
            left_out.append(path.name)
    if len(samples) < _FEWEST_IMAGES:
        raise BadImagesError(
            f"{len(samples)} of {len(paths)} images can be decoded and differ, but at least "
            f"{_FEWEST_IMAGES} are needed"
        )
    return samples, tuple(left_out)


def _failure(error: Exception, seconds: float) -> JobResult:
    seconds = round(seconds, 1)
    if isinstance(error, LearningCancelledError):
        return JobResult(JobState.CANCELLED, message=str(error), seconds=seconds)
    reason: Reason = "internal_error"
    message = str(error)
    if _is_full(error):
        reason = "disk_full"
    else:
        found = [code for kind, code in _REASONS.items() if isinstance(error, kind)]
        if found:
            reason = found[0]
        else:
            message = "".join(traceback.format_exception(error))
    return JobResult(JobState.FAILED, reason, message, seconds)


def _is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, says that the disk is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def _reserve(directory: Path) -> None:
    """Take the room that the result needs, so that a full disk can still be reported."""
    with suppress(OSError):  # full from the start: then the result may fit or not
        (directory / _RESERVE_NAME).write_bytes(b"\0" * _RESERVE_BYTES)
