# SPDX-License-Identifier: Apache-2.0
"""Named errors: each says what was found, where, what was expected and what to do.

Callers that only want to report and carry on catch `NewfoundError`; everything else that
escapes from this package is a bug.
"""


class NewfoundError(Exception):
    """Base of every error that newfound raises on purpose."""


class ConfigError(NewfoundError):
    """An option or a combination of options makes no sense."""


class DataError(NewfoundError):
    """An image, label, tensor or data set has not the form that was promised."""


class TrainingError(NewfoundError):
    """Training went astray and its result cannot be used."""


class BackboneError(NewfoundError):
    """A network is unknown, or cannot serve as a backbone."""


class WeightsError(BackboneError):
    """Pretrained weights cannot be had, or do not fit the network."""


class CheckpointError(NewfoundError):
    """A checkpoint is missing, damaged, from another version, or does not fit its model."""


class ExportError(NewfoundError):
    """A network cannot be exported, or its export computes something else."""


class ExportToolsError(ExportError):
    """The packages that write ONNX are missing, or do not work with each other."""


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


class RecordingError(NewfoundError):
    """A recording that cannot be played; says what was found and what to do."""


class FrameError(NewfoundError):
    """One frame cannot be shown; others may be."""
