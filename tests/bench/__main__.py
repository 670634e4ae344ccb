# SPDX-License-Identifier: Apache-2.0
"""Run benchmarks and write their tables.

    make bench                          all of them, to bench/
    make bench ONLY=node_overhead       one of them
    make bench QUICK=1                  shorter, to see that they run

Each module of this package with a `run(quick)` function is a benchmark; its docstring says
what it measures and what the target is. It returns rows: dictionaries with equal keys.
"""

import argparse
import importlib
import json
import os
import pkgutil
import platform
import re
import sys
from pathlib import Path

os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

import newfound_runtime  # noqa: F401  before torch: threads as node processes have them
from tests import ROOT, bench

PAGE = """# Benchmarks

Made by `make bench PAGE=docs/benchmarks.md` on two cores without an accelerator, otherwise
idle. Read the ratios: both sides of each were measured in turn, in one run. Milliseconds are
those of one machine and vary between runs.
"""
NOTES = "## What falls short, and why"  # written by hand, and kept when the page is made anew


def table(rows: list[dict]) -> str:
    """Rows as a Markdown table."""
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_text(row[c]) for c in columns) + " |" for row in rows]
    return "\n".join(lines)


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    names = [m.name for m in pkgutil.iter_modules(bench.__path__) if not m.name.startswith("_")]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="*", help=f"some of: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="shorter runs, noisier numbers")
    parser.add_argument("--out", type=Path, default=ROOT / "bench")
    parser.add_argument("--page", type=Path, help="put the tables in --out into this page")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(names):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(names)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.only or names:
        module = importlib.import_module(f"tests.bench.{name}")
        print(f"\n## {name}\n\n{module.__doc__}", flush=True)
        rows = module.run(arguments.quick)
        print(table(rows), flush=True)
        machine = {"cores": os.cpu_count(), "python": platform.python_version()}
        result = {"benchmark": name, "quick": arguments.quick, "machine": machine, "rows": rows}
        (arguments.out / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
        (arguments.out / f"{name}.md").write_text(
            f"## {name}{' (short run)' * arguments.quick}\n\n{module.__doc__}\n{table(rows)}\n"
        )
    if arguments.page:
        old = arguments.page.read_text() if arguments.page.exists() else ""
        new = [file.read_text() for file in sorted(arguments.out.glob("*.md"))]
        arguments.page.write_text(page(old, new))


def page(old: str, new: list[str]) -> str:
    """The page with new tables in their places; those not made anew, and the notes, are kept."""
    body, found, notes = old.partition(NOTES)
    tables = {}
    for table in [*re.split(r"(?m)^(?=## )", body)[1:], *new]:
        tables[table.split()[1]] = table.rstrip() + "\n"
    return "\n".join([PAGE, *(tables[name] for name in sorted(tables)), found + notes])


if __name__ == "__main__":
    sys.exit(main())
