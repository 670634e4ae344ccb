# SPDX-License-Identifier: Apache-2.0
"""Adapted state that survives a restart: read at the beginning, written now and then."""

from typing import Any

from newfound_nodes.adaptation import Adaptation
from newfound_nodes.adaptation_store import AdaptationStore, StateError

LATEST = "latest"  # the state that a node writes by itself


class Persistence:
    """Keeps the file of the latest state as new as the adaptation it follows."""

    def __init__(self, store: AdaptationStore, logger: Any) -> None:
        """Raises a StateError if the state could not be written later."""
        store.check_writable()
        self._store, self._logger = store, logger
        self._adaptation: Adaptation | None = None
        self._written: object = None

    def follow(self, adaptation: Adaptation) -> None:
        """Take it to where the last run ended, and write its states from now on."""
        self._resume(adaptation)
        self._adaptation, self._written = adaptation, _version(adaptation)

    def _resume(self, adaptation: Adaptation) -> None:
        """A state that does not fit is told of and left alone."""
        try:
            if self._store.has(LATEST):
                self._logger.info(f"goes on from {adaptation.restore(LATEST)}")
            elif strangers := self._store.strangers():
                raise StateError(
                    f"{self._store.folder} holds only states of other checkpoints, such as "
                    f"{strangers[0]}"
                )
        except StateError as error:
            self._logger.warning(f"saved adaptation ignored, begins at the source: {error}")

    def save_soon(self) -> None:
        """Let the adaptation's thread write the state, if by then there is something new."""
        if self._adaptation is not None:
            self._adaptation.do(self._save)

    def _save(self) -> None:
        assert self._adaptation is not None
        version = _version(self._adaptation)
        if version == self._written:
            return
        try:
            self._adaptation.save(LATEST)
            self._written = version
        except StateError as error:
            self._logger.warning(f"adaptation not saved: {error}")


def _version(adaptation: Adaptation) -> object:
    report = adaptation.report()
    return report.updates, report.last_reset
