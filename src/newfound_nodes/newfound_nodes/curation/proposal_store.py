# SPDX-License-Identifier: Apache-2.0
"""Proposals on disk: a file each, replaced as a whole.

<folder>/<id of the unknown object>.json
<folder>/<id of the unknown object>.jpg     its best crop, while the proposal is open
<folder>/lock                               held by the curator
"""

import re
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from newfound_core.errors import DataError
from newfound_core.storage import (
    FolderLock,
    read_format,
    remove_leftovers,
    write_bytes,
    write_json,
)
from newfound_nodes.curation.proposal import Candidate, Phase, Proposal

FORMAT = 1
FINISHED_KEPT = 500  # so long is it known that an object was asked about
_ID = re.compile(r"[A-Za-z0-9_-]{1,60}")


def is_id(text: str) -> bool:
    """Whether this can be the id of an unknown object, and the name of a file."""
    return _ID.fullmatch(text) is not None


class ProposalStore:
    """Whoever is killed while saving leaves the old proposal or the new one."""

    def __init__(self, folder: Path) -> None:
        """Raises a KnowledgeError if the folder cannot be used or another process uses it."""
        self._lock = FolderLock(folder)
        self.folder = folder

    def close(self) -> None:
        """Let another process have the folder."""
        self._lock.close()

    def load(self) -> tuple[list[Proposal], list[str]]:
        """All proposals, oldest first, and a sentence about each that cannot be read."""
        remove_leftovers(self.folder)
        found, complaints = [], []
        for path in self.folder.glob("*.json"):
            try:
                found.append(_proposal(path))
            except (DataError, OSError, ValueError, KeyError, TypeError) as error:
                aside = path.with_suffix(".damaged")
                path.replace(aside)
                complaints.append(f"proposal {path.stem} is damaged, now {aside.name}: {error!r}")
        return sorted(found, key=lambda proposal: proposal.since), complaints

    def save(self, proposal: Proposal) -> None:
        """Write it; raises OSError if the disk refuses, and then the old one is still there."""
        write_json(self._path(proposal.id, "json"), {"format": FORMAT, **asdict(proposal)})
        if not proposal.open:
            self._path(proposal.id, "jpg").unlink(missing_ok=True)

    def save_crop(self, unknown_id: str, image: bytes) -> None:
        """Keep the view that providers are asked about; raises OSError."""
        write_bytes(self._path(unknown_id, "jpg"), image)

    def crop(self, unknown_id: str) -> bytes:
        """That view; empty if there is none."""
        try:
            return self._path(unknown_id, "jpg").read_bytes()
        except OSError:
            return b""

    def remove(self, unknown_id: str) -> None:
        """Forget that it was ever asked about."""
        for kind in ("json", "jpg"):
            self._path(unknown_id, kind).unlink(missing_ok=True)

    def _path(self, unknown_id: str, kind: str) -> Path:
        assert is_id(unknown_id), f"{unknown_id!r} is no id"
        return self.folder / f"{unknown_id}.{kind}"


def _proposal(path: Path) -> Proposal:
    values = read_format(path, FORMAT)
    if values["id"] != path.stem:
        raise ValueError("it is of another object")
    if values["phase"] not in get_args(Phase):
        raise ValueError(f"the phase is {values['phase']!r}")
    candidates = tuple(Candidate(**candidate) for candidate in values["candidates"])
    return Proposal(**values | {"candidates": candidates, "files": tuple(values["files"])})
