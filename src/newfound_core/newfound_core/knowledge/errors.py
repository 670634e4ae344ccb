# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a knowledge base."""

from newfound_core.errors import NewfoundError


class KnowledgeError(NewfoundError):
    """A knowledge base cannot do what was asked; nothing has changed."""


class LockedError(KnowledgeError):
    """Another process uses the folder."""


class StorageError(KnowledgeError):
    """The disk refused: it is full, read-only, or broken."""


class UnknownVersionError(KnowledgeError):
    """There is no such version to go back to."""


class DamagedError(KnowledgeError):
    """A version, or all of them, cannot be read."""
