# SPDX-License-Identifier: Apache-2.0
"""Keys of services: from the environment only, and shown to nobody."""

import os
from collections.abc import Mapping

from newfound_web.errors import SettingsError

HIDDEN = "[key]"


class Key:
    """A secret that does not print itself; `reveal` is for the header of a request alone."""

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        if not (value.isascii() and value.isprintable() and " " not in value):
            raise SettingsError(f"{name} holds characters that no key has: was it cut wrongly?")
        self._value = value

    def reveal(self) -> str:
        """The secret itself."""
        return self._value

    def hide(self, text: str) -> str:
        """The text without the secret: servers like to repeat a key in their complaint."""
        return text.replace(self._value, HIDDEN)

    def __repr__(self) -> str:
        return f"Key({self.name})"


def find_key(name: str, environment: Mapping[str, str] = os.environ) -> Key | None:
    """The key in this environment variable, or None."""
    value = environment.get(name, "").strip()
    return Key(name, value) if value else None


def need_key(name: str, provider: str, environment: Mapping[str, str] = os.environ) -> Key:
    """The key in this environment variable, which the provider cannot do without."""
    key = find_key(name, environment)
    if key is None:
        raise SettingsError(f"{provider} needs a key in the environment variable {name}")
    return key
