# SPDX-License-Identifier: Apache-2.0
"""Pictures that pages refer to, by a name made of their content, in a limited amount of memory."""

import hashlib
from collections import OrderedDict

MAX_BYTES = 64 * 2**20


class Pictures:
    """Encoded images by name; those that were used longest ago go first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._limit, self._size = max_bytes, 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return self._size

    def add(self, content: bytes) -> str:
        """Keep a picture; its address, empty if it is none."""
        kind = kind_of(content)
        if not kind:
            return ""
        name = f"{hashlib.sha256(content).hexdigest()[:40]}.{kind}"
        if name in self._kept:
            self._kept.move_to_end(name)
        else:
            self._kept[name] = content
            self._size += len(content)
            while self._size > self._limit and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._size -= len(oldest)
        return f"/pictures/{name}"

    def get(self, name: str) -> tuple[bytes, str] | None:
        """A picture and its media type."""
        content = self._kept.get(name)
        if content is None:
            return None
        self._kept.move_to_end(name)
        return content, "image/png" if name.endswith("png") else "image/jpeg"


def kind_of(content: bytes) -> str:
    """How a picture is encoded: jpg or png; empty: it is something else."""
    if content.startswith(b"\xff\xd8\xff"):
        return "jpg"
    return "png" if content.startswith(b"\x89PNG\r\n\x1a\n") else ""
