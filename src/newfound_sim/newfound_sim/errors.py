# SPDX-License-Identifier: Apache-2.0
"""The errors that the simulator raises at its boundary."""

from newfound_core.errors import NewfoundError


class SimulationError(NewfoundError):
    """Anything the simulator refuses to do; the message says what to change."""


class ScenarioError(SimulationError):
    """A scene or scenario description that cannot be rendered."""


class DatasetError(SimulationError):
    """A request for generated data, or a folder of it, that does not fit."""
