# SPDX-License-Identifier: Apache-2.0
"""Files that appear complete or not at all."""

import json
import os
from pathlib import Path
from typing import Any

from newfound_core.atomic_directory import flush
from newfound_core.errors import DataError


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file in one step: a reader, or a crash, sees the old or the new one."""
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


def write_json(path: Path, values: Any) -> None:
    """Writes plain values; numbers must be finite."""
    text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode())


def read_json(path: Path) -> Any:
    """Reads what `write_json` wrote."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
