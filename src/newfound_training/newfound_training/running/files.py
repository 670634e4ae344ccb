# SPDX-License-Identifier: Apache-2.0
"""Values in JSON files that appear complete or not at all."""

import json
from pathlib import Path
from typing import Any

from newfound_core.errors import DataError
from newfound_core.storage import write_bytes


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
