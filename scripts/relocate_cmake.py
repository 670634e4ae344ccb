# SPDX-License-Identifier: Apache-2.0
"""Point the CMake files of the ROS wheels at this environment's Python and NumPy headers.

The message wheels export the include folders of the machine they were built on. Both are
rewritten in place; a second run changes nothing.
"""

import re
import sys
import sysconfig
from pathlib import Path

import numpy

BUILDER = r"/opt/python/[^\s;\"]*?"
REWRITES = {
    re.compile(BUILDER + r"/numpy/(_core|core)/include"): numpy.get_include(),
    re.compile(BUILDER + r"/include/python3\.\d+"): sysconfig.get_path("include"),
}


def main(environment: Path) -> None:
    changed = 0
    for path in sorted(environment.glob("share/**/*.cmake")):
        before = after = path.read_text()
        for pattern, replacement in REWRITES.items():
            after = pattern.sub(replacement, after)
        if after != before:
            # uv hard-links files from its cache: writing in place would edit the cache.
            path.unlink()
            path.write_text(after)
            changed += 1
    left = [p for p in environment.glob("share/**/*.cmake") if "/opt/python/" in p.read_text()]
    if left:
        sys.exit(f"{left[0]} still names the wheel builder's folders; REWRITES needs a new rule")
    print(f"newfound setup: headers set in {changed} CMake files")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
