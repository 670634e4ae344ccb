# SPDX-License-Identifier: Apache-2.0
"""Named errors: what went wrong outside, in words that can be shown to a person."""


class WebError(Exception):
    """Base of every error that this package raises on purpose. Its text holds no key."""


class SettingsError(WebError):
    """Something a person has to set before a provider can work."""


class ProviderError(WebError):
    """A provider could not answer."""


class PassingError(ProviderError):
    """A failure that may be over in a moment: a busy server, a broken connection."""

    def __init__(self, text: str, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after = retry_after  # s that the server asked us to wait; 0 if it did not


class RateLimitError(ProviderError):
    """Waiting for our turn at a service would take too long."""


class RefusedError(ProviderError):
    """What a server offered is not safe to take: its address, its size, its form."""


class PictureError(WebError):
    """Bytes that are no image we would keep."""


class StorageError(WebError):
    """Images cannot be kept: the disk is full, the folder is at its limit or not writable."""
