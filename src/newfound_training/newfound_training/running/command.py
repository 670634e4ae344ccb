# SPDX-License-Identifier: Apache-2.0
"""A command: options in, `result.json` out; everything around it is here, once."""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from newfound_core.errors import ConfigError, NewfoundError
from newfound_core.models import check_device
from newfound_training.running.distributed import joined_team, local_device
from newfound_training.running.options import (
    as_values,
    build_parser,
    parse_options,
    preset_names,
    require,
)
from newfound_training.running.run import COMMON_RESULT_KEYS, Clock, Run, begin, finish


@dataclass(frozen=True)
class Command:
    """What one command adds to the framework."""

    name: str  # with dashes
    summary: str
    options: type  # a dataclass derived from OutputOptions
    run: Callable[[Any, Run], Mapping[str, Any]]  # returns what goes into result.json
    result_keys: Mapping[str, str]  # documented in --help


def execute(command: Command, arguments: Sequence[str]) -> int:
    """Runs a command; an error that newfound knows becomes a message, not a traceback.

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
    with joined_team(device) as team:
        run = Run(
            command.name,
            Path(options.out),
            device,
            getattr(options, "seed", 0),
            getattr(options, "data", ""),
            team,
            arguments,
        )
        values = as_values(options)
        begin(run, values)
        clock = Clock()
        result = command.run(options, run)
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
