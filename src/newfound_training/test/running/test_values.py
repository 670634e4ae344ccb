# SPDX-License-Identifier: Apache-2.0
import pytest
import yaml

from newfound_training.running.values import read_values


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "+1e-3", "1.e-3", "1.0e-3", ".1e-2", "0.01e-1"])
def test_numbers_in_exponent_notation_are_numbers(text):
    assert read_values(text) == 0.001
    assert read_values(f"[{text}, 2e3, -4e0]") == [0.001, 2000.0, -4.0]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e", "1e"), ("e3", "e3"), ("1e3a", "1e3a"), ("'1e3'", "1e3"), ("7", 7), ("true", True)],
)
def test_everything_else_is_read_as_ever(text, value):
    found = read_values(text)
    assert (found, type(found)) == (value, type(value))


def test_nothing_but_plain_values_is_made():
    with pytest.raises(yaml.YAMLError):
        read_values("!!python/object/apply:os.getcwd []")
