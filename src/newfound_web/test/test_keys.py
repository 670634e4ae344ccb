# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_web.errors import SettingsError
from newfound_web.keys import Key, find_key, need_key


def test_a_key_does_not_print_itself():
    key = Key("THE_KEY", "hush-hush")
    assert "hush" not in f"{key} {key!r} {[key]} {key.__dict__ is None}"
    assert key.hide("hush-hush is not valid") == "[key] is not valid"


def test_a_missing_key_is_named_by_its_variable():
    assert find_key("THE_KEY", {"THE_KEY": "  "}) is None
    with pytest.raises(SettingsError, match=r"vision needs a key in the environment .* THE_KEY"):
        need_key("THE_KEY", "vision", {})


@pytest.mark.parametrize("value", ["a b", "a\r\nX-Evil: 1", "schlüssel"])
def test_a_key_that_would_break_a_header_is_refused_without_being_shown(value):
    with pytest.raises(SettingsError) as caught:
        need_key("THE_KEY", "vision", {"THE_KEY": value})
    assert value not in str(caught.value)
