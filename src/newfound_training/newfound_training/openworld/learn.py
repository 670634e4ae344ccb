# SPDX-License-Identifier: Apache-2.0
"""`learn`: one incremental step from a job directory, for the robot.

Whatever happens is said in the job's `result.json`: the node that follows it has nothing else.
"""

import errno
import logging
import os
import shutil
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import torch

from newfound_core.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    NewfoundError,
    TrainingError,
)
from newfound_core.models import check_device
from newfound_core.open_world import job as jobs
from newfound_core.open_world.job import JobResult, Outcome
from newfound_core.open_world.memory import Sample
from newfound_core.open_world.step_config import LearningCancelledError
from newfound_training.openworld.exemplars import reduced
from newfound_training.openworld.job_progress import JobReporter
from newfound_training.openworld.knowledge import Knowledge, load_knowledge
from newfound_training.openworld.learning import learn_class, limit_threads, save_knowledge
from newfound_training.openworld.verdict import verdict
from newfound_training.running.command import Command
from newfound_training.running.options import build_parser, option, parse_options
from newfound_training.running.run import Run

_log = logging.getLogger(__name__)
_RESERVE_NAME, _RESERVE_BYTES = ".reserve", 256 * 1024
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CPU = torch.device("cpu")
_FEWEST_IMAGES = 2  # one to learn from, one to hold out


class BadImagesError(DataError):
    """Too few of a job's images can be used."""


class BadKnowledgeError(CheckpointError):
    """The checkpoint that a job starts from cannot be used."""


_OUTCOMES: dict[type[Exception], Outcome] = {
    LearningCancelledError: "cancelled",
    BadImagesError: "bad_images",
    BadKnowledgeError: "bad_knowledge",
    TrainingError: "training_failed",
    ConfigError: "bad_job",
}


@dataclass(frozen=True)
class LearnOptions:
    """Which job, and how much of the machine it may take."""

    job: str = option("", "the job's folder; see newfound_core.open_world.job", required=True)
    threads: int = option(0, "cores to use; 0: as many as there are")
    niceness: int = option(10, "added to the process's own; the camera comes first")
    device: str = option("cpu", "cpu, cuda, cuda:1, …; never chosen silently")

    def __post_init__(self) -> None:
        if min(self.threads, self.niceness) < 0:
            raise ConfigError("threads and niceness must not be negative")
        if not self.job or not Path(self.job).is_dir():
            raise ConfigError(f"--job must name a folder, got {self.job!r}")


def main(arguments: Sequence[str]) -> int:
    """Takes up a job; 0 if the class was learned, 3 if it was not, 2 for a wrong command line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    epilog = "keys of result.json:\n" + "\n".join(f"  {k}\n      {v}" for k, v in KEYS.items())
    parser = build_parser("learn", LearnOptions, COMMAND.summary, epilog=epilog)
    try:
        options = parse_options(LearnOptions, "learn", parser, arguments)
        device = check_device(options.device)
    except ConfigError as error:
        print(f"learn: {error}", file=sys.stderr)
        return 2
    os.nice(options.niceness)
    limit_threads(options.threads)
    result = finish_job(Path(options.job), device)
    print(f"learn: {result.outcome}. {result.message}".strip(), file=sys.stderr)
    return 0 if result.learned else 3


def finish_job(directory: Path, device: torch.device = _CPU) -> JobResult:
    """Starts, resumes or merely reports a job; its result is on disk afterwards."""
    done = jobs.read_result(directory)
    if done is not None:
        return done
    started = time.monotonic()
    _reserve(directory)
    try:
        result = _work(directory, started, device)
    except Exception as error:  # the node must hear of everything, faults of ours included
        result = _failure(error, time.monotonic() - started)
        _log.debug("the job failed", exc_info=error)
    (directory / _RESERVE_NAME).unlink(missing_ok=True)
    jobs.write_result(directory, result)
    shutil.rmtree(directory / jobs.STATE_NAME, ignore_errors=True)
    return result


def _work(directory: Path, started: float, device: torch.device) -> JobResult:
    job = jobs.read_job(directory)
    reporter = JobReporter(directory, trains=job.options.epochs > 0)
    reporter.report("loading")
    knowledge = _knowledge(directory / job.knowledge, device)
    new, left_out = _new_samples(directory, job, knowledge.loaded.metadata.preprocessing.size)
    learned = learn_class(knowledge, job, new, directory / jobs.STATE_NAME, reporter)
    outcome, message = verdict(learned.accuracy, job.options)
    facts: dict[str, Any] = {
        "images_used": len(new),
        "images_left_out": left_out,
        "accuracy": learned.accuracy,
    }
    if outcome != "learned":
        return JobResult(outcome, message, _since(started), **facts)
    reporter.report("saving")
    save_knowledge(directory / jobs.CHECKPOINT_NAME, learned, knowledge, job, len(new))
    reporter.report("saving", 1, 1)
    return JobResult("learned", message, _since(started), **facts)


def _knowledge(directory: Path, device: torch.device) -> Knowledge:
    try:
        return load_knowledge(directory, device)
    except NewfoundError as error:
        raise BadKnowledgeError(str(error)) from error


def _new_samples(
    directory: Path, job: jobs.Job, size: int
) -> tuple[list[Sample], tuple[str, ...]]:
    """Images that can be decoded, no larger than they need be, and the names of the others."""
    samples, left_out = [], []
    for path in jobs.image_paths(directory):
        sample = Sample(path.read_bytes(), job.label, job.sources.get(path.name, "camera"))
        try:
            samples.append(reduced(sample, size))
        except (DataError, cv2.error):
            left_out.append(path.name)
    if len(samples) < _FEWEST_IMAGES:
        raise BadImagesError(
            f"{len(samples)} of {len(samples) + len(left_out)} images can be decoded, but at "
            f"least {_FEWEST_IMAGES} are needed"
        )
    return samples, tuple(left_out)


def _failure(error: Exception, seconds: float) -> JobResult:
    outcome: Outcome = "internal_error"
    message = str(error)
    if _is_full(error):
        outcome = "disk_full"
    else:
        found = [code for kind, code in _OUTCOMES.items() if isinstance(error, kind)]
        if found:
            outcome = found[0]
        else:
            message = "".join(traceback.format_exception(error))
    return JobResult(outcome, message, round(seconds, 1))


def _is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, says that the disk is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def _reserve(directory: Path) -> None:
    """Takes the room that the result needs, so that a full disk can still be reported."""
    with suppress(OSError):  # full from the start: then the result may fit or not
        (directory / _RESERVE_NAME).write_bytes(b"\0" * _RESERVE_BYTES)


def _since(started: float) -> float:
    return round(time.monotonic() - started, 1)


def _run(options: LearnOptions, run: Run) -> Mapping[str, Any]:
    raise AssertionError("learn has a main of its own")


KEYS = {
    "outcome": f"one of {', '.join(jobs.outcomes())}",
    "message": "for people: why not, or what is doubtful about the learned class",
    "seconds": "since the job was started or last resumed",
    "images_used, images_left_out": "how many could be decoded, and the names of the others",
    "accuracy": "for each class samples, before and after: shares of held-out samples recognised",
}
COMMAND = Command("learn", "Learns one class from a job directory.", LearnOptions, _run, KEYS)
