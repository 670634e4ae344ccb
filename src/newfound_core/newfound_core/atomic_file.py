# SPDX-License-Identifier: Apache-2.0
"""Files that appear complete or not at all."""

import os
from pathlib import Path

from newfound_core.atomic_directory import flush

LEFT_OVER = ".*.part*"  # what a process that was killed while it wrote leaves beside the file


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part{os.getpid()}")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        flush(path.parent)
    finally:
        part.unlink(missing_ok=True)
