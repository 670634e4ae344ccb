# SPDX-License-Identifier: Apache-2.0
"""Query the label providers, in order, until there are enough candidates or time is up."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from newfound_web.errors import (
    Outcome,
    PictureError,
    ProviderError,
    failures_text,
    outcome_without_result,
)
from newfound_web.pictures import Picture, PictureLimits, open_picture
from newfound_web.providers.base import Candidate, LabelProvider
from newfound_web.text import label_problem, same_name


@dataclass
class LabelAnswer:
    """Result of a label query, filled while providers answer."""

    outcome: Outcome = Outcome.INTERNAL
    message: str = ""
    candidates: list[Candidate] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)  # provider: reason


class Labeller:
    """Queries the label providers in their configured order."""

    def __init__(
        self,
        providers: Sequence[LabelProvider],
        limits: PictureLimits,
        provider_seconds: float,
        min_confidence: float,
    ) -> None:
        self._providers = providers
        self._limits = limits
        self._provider_seconds = (
            provider_seconds  # for each, so that a slow one leaves time for the others
        )
        self._min_confidence = min_confidence

    async def ask(self, crop: bytes, count: int, seconds: float) -> LabelAnswer:
        """Return at most `count` candidates within `seconds`."""
        answer = LabelAnswer()
        try:
            async with asyncio.timeout(seconds):
                picture = await asyncio.to_thread(open_picture, crop, self._limits)
                await self._ask_all(picture, count, answer)
        except PictureError as error:
            answer.outcome, answer.message = Outcome.BAD_IMAGES, f"the crop is {error}"
            return answer
        except TimeoutError:
            answer.outcome = Outcome.TIMEOUT
            answer.failures.setdefault("time limit", f"{seconds:.1f} s were over")
        else:
            if answer.candidates:
                answer.outcome = Outcome.OK
            else:
                answer.outcome = outcome_without_result(answer.failures, len(self._providers))
        answer.message = failures_text(answer.failures)
        return answer

    async def _ask_all(self, crop: Picture, count: int, answer: LabelAnswer) -> None:
        for provider in self._providers:
            if len(answer.candidates) >= count:
                return
            try:
                async with asyncio.timeout(self._provider_seconds):
                    found = await provider.candidates(crop, count)
            except TimeoutError:
                answer.failures[provider.name] = f"no answer in {self._provider_seconds:.1f} s"
            except ProviderError as error:
                answer.failures[provider.name] = str(error)
            else:
                self._add(found, count, answer)

    def _add(self, found: Sequence[Candidate], count: int, answer: LabelAnswer) -> None:
        """Add the candidates that are new, confident enough and valid labels."""
        known = {same_name(candidate.label) for candidate in answer.candidates}
        for candidate in found:
            name = same_name(candidate.label)
            fit = name not in known and label_problem(candidate.label) is None
            if fit and candidate.confidence >= self._min_confidence:
                answer.candidates.append(candidate)
                known.add(name)
        del answer.candidates[count:]
