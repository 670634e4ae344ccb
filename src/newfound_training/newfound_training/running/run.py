# SPDX-License-Identifier: Apache-2.0
"""One run of a command: where it writes, on which device, with whom."""

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from newfound_core.errors import ConfigError
from newfound_core.metadata import Provenance
from newfound_training.running.distributed import Team
from newfound_training.running.files import read_json, write_json

RUN_NAME, RESULT_NAME = "run.json", "result.json"
# What may differ between an interrupted run and its continuation without changing the result.
FREE_OPTIONS = frozenset({"resume", "out", "cache_limit_gb", "strict"})


@dataclass(frozen=True)
class Run:
    """What a command needs to know besides its options."""

    command: str
    out: Path
    device: torch.device
    seed: int
    data: str
    team: Team = field(default_factory=Team)
    arguments: tuple[str, ...] = ()  # as given on the command line

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be in [0, 2^63), got {self.seed}")

    def provenance(self, metrics: Mapping[str, Any]) -> Provenance:
        """Where a checkpoint made by this run comes from."""
        return Provenance.now(self.command_line(), self.seed, self.data, metrics)

    def command_line(self) -> str:
        """The command as a person would type it."""
        return shlex.join(["python", "-m", "newfound_training", self.command, *self.arguments])

    def alone(self) -> "Run":
        """The same run, for work that this process does without the others."""
        return replace(self, team=Team())

    def inside(self, name: str) -> "Run":
        """The same run, writing into a folder of its own."""
        return replace(self, out=self.out / name)


class Clock:
    """How long a run takes, and how much of that the machine worked for it."""

    def __init__(self) -> None:
        self._started, self._worked = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        """Since the start, as on a clock."""
        return time.monotonic() - self._started

    def processor_seconds(self) -> float:
        """Of this process on all cores; other work on the machine hardly touches it."""
        return time.process_time() - self._worked


def begin(run: Run, options: Mapping[str, Any]) -> None:
    """Claims the folder: a finished or interrupted run is continued only when asked to."""
    if run.team.leads:
        try:
            _claim(run, options)
        except OSError as error:
            raise ConfigError(
                f"{run.out} cannot be written to ({error.strerror}): choose another --out"
            ) from error
    run.team.wait()


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
    """Writes `result.json`: what every command reports, then what this one found."""
    if not run.team.leads:
        return
    values = {
        "command": run.command,
        "command_line": run.command_line(),
        "options": dict(options),
        "seed": run.seed,
        "device": str(run.device),
        "processes": run.team.processes,
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
