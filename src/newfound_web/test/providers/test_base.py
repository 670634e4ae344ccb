# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from newfound_web.errors import ProviderError, SettingsError
from newfound_web.providers.base import Key, cached_query, find_key, require_key


def ask_with(cache, answers, read):
    async def ask():
        return answers.pop(0)

    return asyncio.run(cached_query(cache, "p", "question", ask, read))


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


def test_a_key_does_not_print_itself():
    key = Key("THE_KEY", "hush-hush")
    assert "hush" not in f"{key} {key!r} {[key]} {key.__dict__ is None}"
    assert key.hide("hush-hush is not valid") == "[key] is not valid"


def test_a_missing_key_is_named_by_its_variable():
    assert find_key("THE_KEY", {"THE_KEY": "  "}) is None
    with pytest.raises(SettingsError, match=r"vision needs a key in the environment .* THE_KEY"):
        require_key("THE_KEY", "vision", {})


@pytest.mark.parametrize("value", ["a b", "a\r\nX-Evil: 1", "schlüssel"])
def test_a_key_that_would_break_a_header_is_refused_without_being_shown(value):
    with pytest.raises(SettingsError) as caught:
        require_key("THE_KEY", "vision", {"THE_KEY": value})
    assert value not in str(caught.value)
