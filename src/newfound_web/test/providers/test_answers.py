# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from newfound_web.errors import ProviderError
from newfound_web.providers.answers import asked_once


def ask_with(cache, answers, read):
    async def ask():
        return answers.pop(0)

    return asyncio.run(asked_once(cache, "p", "question", ask, read))


def test_a_question_is_asked_once(cache):
    answers = [{"n": 1}, {"n": 2}]
    assert [ask_with(cache, answers, lambda a: a["n"]) for _ in range(3)] == [1, 1, 1]
    assert answers == [{"n": 2}]


def test_a_kept_answer_that_can_no_longer_be_read_is_asked_for_anew(cache):
    ask_with(cache, [{"old": 1}], lambda a: a["old"])
    assert ask_with(cache, [{"n": 2}], lambda a: a["n"]) == 2


def test_an_answer_that_cannot_be_read_is_an_error_and_is_not_kept(cache):
    answers = [{"wrong": 1}, {"n": 2}]
    with pytest.raises(ProviderError, match="p answered in a form that it does not document"):
        ask_with(cache, answers, lambda a: a["n"])
    assert ask_with(cache, answers, lambda a: a["n"]) == 2
