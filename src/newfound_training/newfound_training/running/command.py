# SPDX-License-Identifier: Apache-2.0
"""A command and its run: options in, `result.json` out, everything around it once.

A resumed run works with the options and the data that it was started with, or not at all: saved
states, cached features and measured streams know images by their position. After an image was
added or repaired they would belong to other images, and nothing else would notice.
"""

import hashlib
import logging
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from newfound_core.errors import ConfigError, NewfoundError
from newfound_core.metadata import Provenance
from newfound_core.models import check_device
from newfound_core.storage import read_json, write_json
from newfound_training.data import ImageSet
from newfound_training.running.distributed import (
    DistributedGroup,
    init_process_group,
    local_device,
)
from newfound_training.running.options import (
    as_values,
    build_parser,
    parse_options,
    preset_names,
    require,
)

RUN_NAME, RESULT_NAME = "run.json", "result.json"
# What may differ between an interrupted run and its continuation without changing the result.
FREE_OPTIONS = frozenset({"resume", "out", "cache_limit_gb", "strict"})


@dataclass(frozen=True)
class Run:
    """Folder, device, seed and process group of a command."""

    command: str
    out: Path
    device: torch.device
    seed: int
    data: str
    process_group: DistributedGroup = field(default_factory=DistributedGroup)
    arguments: tuple[str, ...] = ()  # as given on the command line

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be in [0, 2^63), got {self.seed}")

    def provenance(self, metrics: Mapping[str, Any]) -> Provenance:
        """Provenance of a checkpoint made by this run."""
        return Provenance.now(self.command_line(), self.seed, self.data, metrics)

    def command_line(self) -> str:
        """The command as a person would type it."""
        return shlex.join(["python", "-m", "newfound_training", self.command, *self.arguments])

    def alone(self) -> "Run":
        """The same run, for work that this process does without the others."""
        return replace(self, process_group=DistributedGroup())

    def inside(self, name: str) -> "Run":
        """The same run, writing into a folder of its own."""
        return replace(self, out=self.out / name)


class Clock:
    """Wall-clock and processor time of a run."""

    def __init__(self) -> None:
        self._started, self._worked = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        """Wall-clock time since the start."""
        return time.monotonic() - self._started

    def processor_seconds(self) -> float:
        """Processor time of this process on all cores, whatever else the machine does."""
        return time.process_time() - self._worked


def begin(run: Run, options: Mapping[str, Any]) -> None:
    """Claim the folder: a finished or interrupted run is continued only when asked to."""
    if run.process_group.is_main_process:
        try:
            _claim(run, options)
        except OSError as error:
            raise ConfigError(
                f"{run.out} cannot be written to ({error.strerror}): choose another --out"
            ) from error
    run.process_group.barrier()


def _claim(run: Run, options: Mapping[str, Any]) -> None:
    path = run.out / RUN_NAME
    if not path.exists():
        if run.out.is_dir() and any(run.out.iterdir()):
            raise ConfigError(f"{run.out} exists and is not empty: choose another --out")
        write_json(path, {"command": run.command, "options": dict(options)})
        return
    if not options["resume"]:
        raise ConfigError(
            f"{run.out} holds a run already: give --resume to go on, or another --out"
        )
    _refuse_other_options(path, run.command, options)
    write_json(path, read_json(path))  # a folder that became read-only is noticed at once


def _release(run: Run) -> None:
    """Let the folder go if nothing is in it: what was refused may be asked for in other words."""
    if run.process_group.is_main_process and [p.name for p in run.out.iterdir()] == [RUN_NAME]:
        (run.out / RUN_NAME).unlink()


def _refuse_other_options(path: Path, command: str, options: Mapping[str, Any]) -> None:
    before = read_json(path)
    if before["command"] != command:
        raise ConfigError(f"{path.parent} holds a run of {before['command']}, not of {command}")
    old = before["options"]
    changed = sorted(
        f"{name} was {old.get(name)!r} and is {options.get(name)!r}"
        for name in (old.keys() | options.keys()) - FREE_OPTIONS
        if old.get(name) != options.get(name)
    )
    if changed:
        raise ConfigError(
            f"the run in {path.parent} was started with other options: {'; '.join(changed)}. "
            "Resume it with the same ones, or choose another --out"
        )


def finish(run: Run, options: Mapping[str, Any], result: Mapping[str, Any], clock: Clock) -> None:
    """Write `result.json`: what every command reports, then what this one found."""
    if not run.process_group.is_main_process:
        return
    values = {
        "command": run.command,
        "command_line": run.command_line(),
        "options": dict(options),
        "seed": run.seed,
        "device": str(run.device),
        "processes": run.process_group.world_size,
        "torch": torch.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(clock.seconds(), 1),
        "processor_seconds": round(clock.processor_seconds(), 1),
        **result,
    }
    write_json(run.out / RESULT_NAME, values)


COMMON_RESULT_KEYS = {
    "command, command_line, options": "what was run",
    "seed, device, processes, torch": "under which circumstances",
    "date, seconds, processor_seconds": "when it finished (UTC), the time since it was started or "
    "last resumed, and the work of all cores in that time for the first process",
}


DATA_NAME = "data.json"


def require_same_images(images: ImageSet, run: Run) -> None:
    """Remember the images of a run; a ConfigError if it was started with others."""
    names = (f"{source.name} {source.fingerprint()}" for source in images.sources)
    require_same_data(images.root, [*images.class_names, *names], run)


def require_same_data(root: Path, fingerprints: Iterable[str], run: Run) -> None:
    """The same for anything that fingerprints tell apart."""
    if not run.process_group.is_main_process:
        return
    path = run.out / DATA_NAME
    digest = hashlib.sha256("\n".join(fingerprints).encode()).hexdigest()
    known = read_json(path) if path.exists() else {}
    if known.setdefault(str(root), digest) != digest:
        raise ConfigError(
            f"{root} is not what it was when the run in {run.out} was started: files were added, "
            "changed or removed. Restore them, or choose another --out"
        )
    write_json(path, known)


@dataclass(frozen=True)
class Command:
    """Name, options, function and result keys of a command."""

    name: str  # with dashes
    summary: str
    options: type  # a dataclass derived from OutputOptions
    run: Callable[[Any, Run], Mapping[str, Any]]  # returns what goes into result.json
    result_keys: Mapping[str, str]  # documented in --help


def execute(command: Command, arguments: Sequence[str]) -> int:
    """Run a command; an error that newfound knows becomes a message, not a traceback.

    The exit code is 2 for options that cannot be right, 1 for any other such error.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parser = build_parser(command.name, command.options, command.summary, epilog=_epilog(command))
    try:
        options: Any = parse_options(command.options, command.name, parser, arguments)
        _run(command, options, tuple(arguments))
    except NewfoundError as error:
        print(f"{command.name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        print(f"{command.name}: interrupted; --resume goes on from here", file=sys.stderr)
        return 130
    return 0


def _run(command: Command, options: Any, arguments: tuple[str, ...]) -> None:
    require(options)
    # Not every command computes on a device, draws at random or works on a data folder.
    device = check_device(local_device(getattr(options, "device", "cpu")))
    with init_process_group(device) as process_group:
        run = Run(
            command.name,
            Path(options.out),
            device,
            getattr(options, "seed", 0),
            getattr(options, "data", ""),
            process_group,
            arguments,
        )
        values = as_values(options)
        begin(run, values)
        clock = Clock()
        try:
            result = command.run(options, run)
        except NewfoundError:
            _release(run)
            raise
        finish(run, values, result, clock)


def _epilog(command: Command) -> str:
    keys = {**COMMON_RESULT_KEYS, **command.result_keys}
    return "\n".join(
        [
            f"presets: {', '.join(preset_names(command.name)) or 'none'}",
            "",
            "keys of result.json:",
            *(f"  {name}\n      {meaning}" for name, meaning in keys.items()),
        ]
    )
