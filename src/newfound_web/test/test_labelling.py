# SPDX-License-Identifier: Apache-2.0
"""Providers are asked in order, within the time, and fail one by one."""

import asyncio

import pytest

from newfound_web.errors import NoIdeaError, Outcome, ProviderError
from newfound_web.labelling import Labeller
from newfound_web.pictures import PictureLimits
from newfound_web.providers.base import Candidate


class Says:
    """A provider that proposes these labels, fails, or takes its time."""

    def __init__(self, name, *labels, fails="", seconds=0.0):
        self.name, self.labels, self.fails, self.seconds = name, labels, fails, seconds
        self.asked = 0

    async def candidates(self, crop, count):
        self.asked += 1
        await asyncio.sleep(self.seconds)
        if self.fails:
            raise ProviderError(self.fails)
        return [Candidate(label, confidence, self.name) for label, confidence in self.labels]


@pytest.fixture
def ask(photo):
    def run(
        *providers, count=3, seconds=60.0, provider_seconds=60.0, crop=None, combine=False, **more
    ):
        limits = PictureLimits()
        labeller = Labeller(providers, limits, provider_seconds, 0.1, combine=combine)
        data = photo(1) if crop is None else crop
        return asyncio.run(labeller.ask(data, count, seconds, **more))

    return run


def labels(answer):
    return [(candidate.label, candidate.provider) for candidate in answer.candidates]


def test_a_provider_that_fills_the_list_leaves_nothing_for_the_next(ask):
    second = Says("second", ("mug", 1.0))
    answer = ask(Says("first", ("teapot", 0.9), ("vase", 0.5)), second, count=2)
    assert answer.outcome is Outcome.OK
    assert labels(answer) == [("teapot", "first"), ("vase", "first")]
    assert second.asked == 0


def test_the_next_provider_adds_what_is_new(ask):
    answer = ask(Says("a", ("Coffee Mug", 0.4)), Says("b", ("coffee_mug", 0.9), ("cup", 0.8)))
    assert labels(answer) == [("Coffee Mug", "a"), ("cup", "b")]


def test_what_is_unlikely_or_no_label_is_left_out(ask):
    odd = Says("a", ("unsure", 0.05), ("two\nlines", 0.9), ("", 0.9), ("fine", 0.9))
    assert labels(ask(odd)) == [("fine", "a")]


def test_a_failure_is_told_and_the_next_is_asked(ask):
    answer = ask(Says("a", fails="no key"), Says("b", ("cup", 0.9)))
    assert answer.outcome is Outcome.OK
    assert answer.message == "a: no key"


def test_when_all_fail_each_reason_is_told(ask):
    answer = ask(Says("a", fails="no key"), Says("b", seconds=3600), provider_seconds=0.05)
    assert answer.outcome is Outcome.PROVIDERS_FAILED
    assert answer.message == "a: no key; b: no answer in 0.1 s"


def test_when_one_answers_with_nothing_nothing_was_found(ask):
    assert ask(Says("a", fails="no key"), Says("b")).outcome is Outcome.NOTHING_FOUND
    assert ask().outcome is Outcome.NOTHING_FOUND


def test_when_time_is_up_what_has_come_is_given(ask):
    answer = ask(Says("a", ("cup", 0.9)), Says("b", seconds=3600), seconds=1.0)
    assert answer.outcome is Outcome.TIMEOUT
    assert labels(answer) == [("cup", "a")]


@pytest.mark.parametrize("crop", [b"", b"not an image"])
def test_a_crop_that_is_no_image_is_told(ask, crop):
    provider = Says("a", ("cup", 0.9))
    answer = ask(provider, crop=crop)
    assert answer.outcome is Outcome.BAD_IMAGES
    assert provider.asked == 0


class HasNoIdea(Says):
    async def candidates(self, crop, count):
        raise NoIdeaError("no idea; the best name, mug, has 1%")


class SeesViews(Says):
    min_confidence = 0.0

    async def candidates_of_views(self, views, count, exclude):
        self.views, self.exclude = len(views), exclude
        return await self.candidates(views[0], count)


def test_no_idea_is_an_answer_and_not_a_failure(ask):
    answer = ask(HasNoIdea("names"))
    assert answer.outcome is Outcome.NOTHING_FOUND
    assert answer.message == "names: no idea; the best name, mug, has 1%"


def test_names_to_leave_out_are_left_out_of_every_answer(ask):
    answer = ask(Says("a", ("Tea pot", 0.9), ("vase", 0.5)), exclude=["tea_pot"])
    assert labels(answer) == [("vase", "a")]


def test_all_views_that_can_be_used_go_to_providers_that_take_them(ask, photo):
    provider = SeesViews("a", ("vase", 0.01))
    answer = ask(provider, more_crops=[photo(2), b"no image", photo(3)], exclude=["mug"])
    assert labels(answer) == [("vase", "a")]  # its own limit holds
    assert provider.views == 3
    assert provider.exclude == {"mug"}


def test_combined_providers_are_all_asked(ask):
    first, second = Says("a", ("vase", 0.3), ("mug", 0.2)), Says("b", ("mug", 0.3))
    answer = ask(first, second, count=2, combine=True)
    assert labels(answer) == [("mug", "a+b"), ("vase", "a")]
    assert second.asked == 1


def test_a_provider_that_fails_leaves_the_others_combined(ask):
    answer = ask(Says("a", fails="broken"), Says("b", ("mug", 0.3)), combine=True)
    assert labels(answer) == [("mug", "b")]
    assert answer.message == "a: broken"
