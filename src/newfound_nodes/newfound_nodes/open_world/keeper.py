# SPDX-License-Identifier: Apache-2.0
"""What the detector knows now, and every way in which that changes."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from newfound_core.errors import DataError
from newfound_core.knowledge.contents import (
    Knowledge,
    from_checkpoint,
    read_knowledge,
    without_class,
)
from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.knowledge.version_note import ClassNote
from newfound_core.models import check_device

Looks = Mapping[str, np.ndarray]  # of unknown objects, by id


@dataclass(frozen=True)
class Now:
    """The knowledge in use. A value: a frame takes it once and is not disturbed by a change."""

    version: int
    knowledge: Knowledge
    since: float  # s since 1970, when it came into use
    classes: Mapping[str, ClassNote]
    restorable: list[int]  # earlier versions on disk
    looks: Looks = field(default_factory=dict)  # of the unknown objects, by this network


class KnowledgeKeeper:
    """The knowledge base of one detector. Changes are made one at a time, from any thread."""

    def __init__(
        self,
        root: Path,
        shipped: Path | None,
        *,
        device: str = "cpu",
        keep: int = 10,
        look: Callable[[Knowledge], Looks] = lambda knowledge: {},
        changed: Callable[[Now], None] = lambda now: None,
    ) -> None:
        """`look` is asked for the looks of the unknown objects before knowledge is used."""
        self._look, self._changed = look, changed
        self._lock = threading.Lock()
        check_device(device)  # it is not the versions that cannot be read then
        self._base = KnowledgeBase(root, partial(read_knowledge, device=device), keep)
        try:
            opened = self._base.open(from_checkpoint(shipped) if shipped else None)
            self.complaints = opened.complaints
            self.now = self._make_now(opened.version, opened.content)
        except BaseException:
            self._base.close()
            raise

    def adopt(self, job: str, label: str, checkpoint: Path) -> int:
        """Use what a job has learned; return its version.

        A job that is looked at again has a version already. Unless that is newer than the one in
        use it stays unused: since then somebody forgot a class, or went back.
        """
        with self._lock:
            expected = [*self.now.knowledge.labels]
            expected += [] if label in expected else [label]
            version = self._base.adopt(checkpoint, expected, f"learned {label!r}", job)
            if version <= self.now.version:
                return version

            def check(knowledge: Knowledge) -> None:
                if sorted(knowledge.labels) != sorted(expected):
                    raise DataError(f"it knows {knowledge.labels}, expected {expected}")

            return self._use(version, check)

    def forget(self, label: str) -> int:
        """Use knowledge without a class; return its version."""
        with self._lock:
            if label not in self.now.knowledge.labels:
                raise DataError(f"no class is called {label[:100]!r}")
            write = without_class(self._base.folder(self.now.version), label)
            return self._use(self._base.add(write, f"forgot {label!r}"))

    def restore(self, version: int) -> int:
        """Use an earlier version again; return the version that is its copy."""
        with self._lock:
            return self._use(self._base.copy(version))

    def remember_looks(self, looks: Looks) -> None:
        """Take over the looks of unknown objects that were read after the knowledge."""
        self.now = replace(self.now, looks=looks)

    def close(self) -> None:
        """Let another node have the knowledge base."""
        self._base.close()

    def _use(self, version: int, check: Callable[[Knowledge], None] = lambda _: None) -> int:
        self.now = self._make_now(version, self._base.switch(version, check))
        self._changed(self.now)
        return version

    def _make_now(self, version: int, knowledge: Knowledge) -> Now:
        note = self._base.note(version)
        return Now(
            version,
            knowledge,
            time.time(),
            note.classes if note else {},
            [other for other in self._base.versions() if other != version],
            self._look(knowledge),
        )
