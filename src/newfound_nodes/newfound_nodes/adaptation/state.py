# SPDX-License-Identifier: Apache-2.0
"""Adapted statistics on disk, of one node and one checkpoint.

    <folder>/<node>/<first 16 digits of the checkpoint's SHA-256>.latest.safetensors
    <folder>/<node>/<…>.saved.safetensors

`latest` is written by the node itself, `saved` when ~/save is called. No other path is ever read
or written, whatever a service call says.
"""

import os
from pathlib import Path

from newfound_core.errors import CheckpointError
from newfound_core.onda import Onda
from newfound_core.storage import remove_leftovers

LATEST = "latest"  # the state that a node writes by itself
SAVED = "saved"  # the state that ~/save writes
_SUFFIX = ".safetensors"


def default_folder() -> Path:
    """Beside ROS's own files of this user."""
    return Path(os.environ.get("ROS_HOME") or "~/.ros").expanduser() / "newfound"


class StateError(Exception):
    """A state that cannot be written or read, and why, in one sentence."""


class AdaptationStore:
    """Saves and restores adapted statistics, each in one step that a crash cannot halve."""

    def __init__(self, folder: str | Path, node: str, digest: str) -> None:
        """`node` is its full name; `digest` that of the checkpoint."""
        base = Path(folder).expanduser() if folder else default_folder()
        self.folder = base / node.strip("/").replace("/", "__")
        self._key = digest[:16]

    def path(self, kind: str) -> Path:
        """The file of a kind: latest or saved."""
        return self.folder / f"{self._key}.{kind}{_SUFFIX}"

    def check_writable(self) -> None:
        """Raise a StateError unless a file can be written, and sweep up after a crash."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.folder, self._key)
            probe = self.folder / f".{self._key}.part"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise StateError(
                f"the state folder {self.folder} cannot be written: {error.strerror}. Set "
                "state_dir to a folder that can, or persist_adaptation to false"
            ) from error

    def save(self, onda: Onda, kind: str) -> Path:
        """Write the state, or raise a StateError; the file is whole at every moment."""
        path = self.path(kind)
        try:
            onda.save(path)
        except OSError as error:
            raise StateError(f"{path} could not be written: {error.strerror or error}") from error
        return path

    def restore(self, onda: Onda, kind: str) -> Path:
        """Go on from a saved state, or raise a StateError that says why not."""
        path = self.path(kind)
        if not path.is_file():
            raise StateError(f"there is no state of this checkpoint: {path} does not exist")
        try:
            onda.restore(path)
        except CheckpointError as error:
            raise StateError(" ".join(str(error).split())) from error
        return path

    def has(self, kind: str) -> bool:
        """Whether there is a state of this checkpoint."""
        return self.path(kind).is_file()

    def states_of_others(self) -> list[str]:
        """Names of states in the node's folder that belong to other checkpoints."""
        if not self.folder.is_dir():
            return []
        found = (file.name for file in self.folder.glob(f"*{_SUFFIX}"))
        return sorted(name for name in found if not name.startswith(self._key))
