# SPDX-License-Identifier: Apache-2.0
"""Options that every open-world head has, and how options are checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from newfound_core.errors import ConfigError
from newfound_core.open_world.decision import ChooseFrom, RejectWhen


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """How any head decides."""

    reject_when: RejectWhen = "nearest_beyond"
    choose_from: ChooseFrom = "all"
    # Exact distances only to so many classes, those nearest in a small projection; 0 compares
    # with every class. See `search`.
    shortlist: int = 8

    def __post_init__(self) -> None:
        self._one_of("reject_when", get_args(RejectWhen))
        self._one_of("choose_from", get_args(ChooseFrom))
        self._at_least("shortlist", 0)

    def _one_of(self, option: str, choices: Sequence[str]) -> None:
        if getattr(self, option) not in choices:
            expected = ", ".join(choices)
            raise ConfigError(f"{option} is {getattr(self, option)!r}, expected one of {expected}")

    def _at_least(self, option: str, smallest: float) -> None:
        value = getattr(self, option)
        if not smallest <= value < float("inf"):
            raise ConfigError(f"{option} must be a number of at least {smallest}, got {value}")

    def _within(self, option: str, low: float, high: float) -> None:
        value = getattr(self, option)
        if not low <= value <= high:
            raise ConfigError(f"{option} must be between {low} and {high}, got {value}")
