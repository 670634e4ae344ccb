# SPDX-License-Identifier: Apache-2.0
"""Images that web_query has stored, read from the folder that both nodes are configured with.

Names come in messages: none is opened that is not a collection's and a checksum's, and none
that leads out of the folder.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

MOST_BYTES = 48 * 2**20  # all together; the detector takes 64 MiB
_COLLECTION = re.compile(r"[a-z0-9_]{1,60}-[a-z0-9]{1,20}-[0-9]{4,6}")
_FILE = re.compile(r"[0-9a-f]{64}\.jpg")


def default_folder() -> Path:
    """Where web_query stores images unless its parameter says otherwise."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "newfound" / "images"


def read_images(root: Path, collection: str, files: Sequence[str]) -> list[bytes]:
    """The contents of those that are there, unchanged since they were stored."""
    if not _COLLECTION.fullmatch(collection):
        return []
    found: list[bytes] = []
    for name in files:
        content = _read(root, root / collection / name) if _FILE.fullmatch(name) else None
        if content is None or hashlib.sha256(content).hexdigest() != name.removesuffix(".jpg"):
            continue
        if sum(map(len, found)) + len(content) > MOST_BYTES:
            break
        found.append(content)
    return found


def _read(root: Path, path: Path) -> bytes | None:
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            return None
        return path.read_bytes()
    except OSError:
        return None
