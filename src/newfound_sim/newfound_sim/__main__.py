# SPDX-License-Identifier: Apache-2.0
"""`python -m newfound_sim …`: data and pictures from the command line.

Commands live in modules with a function `add_commands(generate, sheet)`, which receives the
sub-parsers of `generate` and of `sheet`; every command sets `run`, a function of the arguments.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from newfound_sim import film_command
from newfound_sim.errors import SimulationError

COMMANDS = ["newfound_sim.commands", "newfound_sim.rooms.commands"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a request that cannot be met ends with a sentence and code 2."""
    parser = argparse.ArgumentParser(prog="newfound_sim", description="Rendered worlds.")
    kinds = parser.add_subparsers(required=True)
    generate = kinds.add_parser("generate", help="write data").add_subparsers(required=True)
    sheet = kinds.add_parser("sheet", help="write a contact sheet").add_subparsers(required=True)
    for module in COMMANDS:
        import_module(module).add_commands(generate, sheet)
    film_command.add_commands(kinds, sheet)
    chosen = parser.parse_args(arguments)
    try:
        chosen.run(chosen)
    except SimulationError as error:
        print(f"newfound_sim: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("newfound_sim: interrupted; run the same command to continue", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
