# SPDX-License-Identifier: Apache-2.0
"""Query the label providers, in order, until there are enough candidates or time is up."""

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from newfound_web.combining import POOL, combine
from newfound_web.errors import (
    NoIdeaError,
    Outcome,
    PictureError,
    ProviderError,
    failures_text,
    outcome_without_result,
)
from newfound_web.pictures import Picture, PictureLimits, open_picture
from newfound_web.providers.base import Candidate, LabelProvider, MultiViewProvider
from newfound_web.text import label_problem, same_name

MAX_VIEWS = 5  # of one object


@dataclass
class LabelAnswer:
    """Result of a label query, filled while providers answer."""

    outcome: Outcome = Outcome.INTERNAL
    message: str = ""
    candidates: list[Candidate] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)  # provider: reason
    without_idea: dict[str, str] = field(default_factory=dict)  # provider: what it found


class Labeller:
    """Queries the label providers in their configured order, or all of them to combine them."""

    def __init__(
        self,
        providers: Sequence[LabelProvider],
        limits: PictureLimits,
        provider_seconds: float,
        min_confidence: float,
        *,
        combine: bool = False,
    ) -> None:
        self._providers = providers
        self._limits = limits
        # For each, so that a slow one leaves time for the others.
        self._provider_seconds = provider_seconds
        self._min_confidence = min_confidence
        self._combine = combine

    async def ask(
        self,
        crop: bytes,
        count: int,
        seconds: float,
        more_crops: Sequence[bytes] = (),
        exclude: Collection[str] = (),
    ) -> LabelAnswer:
        """Return at most `count` candidates within `seconds`, none of them in `exclude`.

        `more_crops` are other views of the object; one that cannot be used is left out.
        """
        answer = LabelAnswer()
        try:
            async with asyncio.timeout(seconds):
                views = [await asyncio.to_thread(open_picture, crop, self._limits)]
                for other in more_crops[: MAX_VIEWS - 1]:
                    with contextlib.suppress(PictureError):
                        views.append(await asyncio.to_thread(open_picture, other, self._limits))
                await self._ask_all(_Query(views, count, frozenset(exclude)), answer)
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
        answer.message = failures_text(answer.failures | answer.without_idea)
        return answer

    async def _ask_all(self, query: "_Query", answer: LabelAnswer) -> None:
        found: list[Sequence[Candidate]] = []
        for provider in self._providers:
            if len(answer.candidates) >= query.count and not self._combine:
                return
            found.append(self._fit(await self._ask_one(provider, query, answer), provider, query))
            if not self._combine:
                self._add(found[-1], query.count, answer)
                continue
            answer.candidates.clear()  # a timeout keeps what there is so far
            self._add(combine(found), query.count, answer)

    async def _ask_one(
        self, provider: LabelProvider, query: "_Query", answer: LabelAnswer
    ) -> Sequence[Candidate]:
        count = max(query.count, POOL) if self._combine else query.count
        try:
            async with asyncio.timeout(self._provider_seconds):
                if isinstance(provider, MultiViewProvider):
                    return await provider.candidates_of_views(query.views, count, query.exclude)
                return await provider.candidates(query.views[0], count + len(query.exclude))
        except TimeoutError:
            answer.failures[provider.name] = f"no answer in {self._provider_seconds:.1f} s"
        except NoIdeaError as error:
            answer.without_idea[provider.name] = str(error)
        except ProviderError as error:
            answer.failures[provider.name] = str(error)
        return []

    def _fit(
        self, found: Sequence[Candidate], provider: LabelProvider, query: "_Query"
    ) -> list[Candidate]:
        """The candidates that are confident enough, valid labels, and not to be left out."""
        limit = getattr(provider, "min_confidence", self._min_confidence)
        limit = 0.0 if self._combine else limit  # what is unlikely for one may be likely for both
        left_out = {same_name(name) for name in query.exclude}
        return [
            c
            for c in found
            if c.confidence >= limit
            and label_problem(c.label) is None
            and same_name(c.label) not in left_out
        ]

    def _add(self, found: Sequence[Candidate], count: int, answer: LabelAnswer) -> None:
        """Add the candidates that are new."""
        known = {same_name(candidate.label) for candidate in answer.candidates}
        for candidate in found:
            name = same_name(candidate.label)
            if name not in known:
                answer.candidates.append(candidate)
                known.add(name)
        del answer.candidates[count:]


@dataclass(frozen=True)
class _Query:
    """What providers are asked about."""

    views: Sequence[Picture]
    count: int
    exclude: frozenset[str]
