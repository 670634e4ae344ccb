# SPDX-License-Identifier: Apache-2.0
"""Lists the tests that take long, which `make quick` leaves out: tests/slow_tests.txt.

    scripts/test.sh --durations=0 --durations-min=0.05 | tee log
    python -m scripts.slow_tests --seconds 0.6 < log

A test function counts with all its parameters, set-up and tear-down together. Measure on an idle
machine. Tests that are marked `slow` in their own file need no line here.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "tests/slow_tests.txt"
LINE = re.compile(r"^([\d.]+)s (?:call|setup|teardown)\s+(\S+?::[^\[\s]+)")
HEAD = (
    "# Test functions that `make quick` leaves out, by measurement: python -m scripts.slow_tests\n"
)


def slow_tests(log: Iterable[str], seconds: float) -> list[str]:
    """Functions that take longer, by the durations in pytest's output."""
    total: dict[str, float] = defaultdict(float)
    for line in log:
        if found := LINE.match(line):
            total[found[2]] += float(found[1])
    return sorted(name for name, spent in total.items() if spent > seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.6)
    names = slow_tests(sys.stdin, parser.parse_args().seconds)
    FILE.write_text(HEAD + "".join(f"{name}\n" for name in names))
    print(f"{len(names)} tests in {FILE.name}")


if __name__ == "__main__":
    main()
