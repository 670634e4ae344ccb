# SPDX-License-Identifier: Apache-2.0
"""Ed25519 keys: a robot signs what it gives away, and is told whose packages to take.

<folder>/signing.pem         the private key, of mode 0600
<folder>/trusted/*.pub       one public key a file, as text: base64 of its 32 bytes
"""

import base64
import binascii
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from newfound_core.errors import DataError, StorageError

SIGNING_NAME, TRUSTED_NAME = "signing.pem", "trusted"
_BYTES = 32  # of a public key


def default_keys() -> Path:
    """The folder of keys: newfound/keys in ROS_HOME."""
    return Path(os.environ.get("ROS_HOME", "~/.ros")).expanduser() / "newfound" / "keys"


@dataclass(frozen=True)
class PublicKey:
    """Whose signature it is."""

    text: str  # base64

    @classmethod
    def parse(cls, text: str) -> "PublicKey":
        """Read it; a DataError if it is none."""
        try:
            raw = base64.b64decode(text.strip(), validate=True)
        except (binascii.Error, ValueError, AttributeError) as error:
            raise DataError(f"not a public key: {error}") from error
        if len(raw) != _BYTES:
            raise DataError(f"a public key has {_BYTES} bytes, this one {len(raw)}")
        return cls(base64.b64encode(raw).decode())

    def verifies(self, signature: bytes, content: bytes) -> bool:
        """Whether this key signed the content."""
        try:
            Ed25519PublicKey.from_public_bytes(base64.b64decode(self.text)).verify(
                signature, content
            )
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """A private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public(self) -> PublicKey:
        """What others are given to trust it."""
        raw = self._key.public_key().public_bytes_raw()
        return PublicKey(base64.b64encode(raw).decode())

    def sign(self, content: bytes) -> bytes:
        """The signature of some bytes."""
        return self._key.sign(content)

    @classmethod
    def create(cls, folder: Path) -> "SigningKey":
        """Make a key; one that is there is never overwritten."""
        key, path = Ed25519PrivateKey.generate(), folder / SIGNING_NAME
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise StorageError(f"{path} exists already: packages are signed with it") from error
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error}") from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        return cls(key)

    @classmethod
    def load(cls, folder: Path) -> "SigningKey":
        """Read the key of a folder; one that others may read is refused."""
        path = folder / SIGNING_NAME
        try:
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise DataError(f"{path} can be read by other users: chmod 600 it")
            key = load_pem_private_key(path.read_bytes(), None)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error}") from error
        except (ValueError, TypeError) as error:
            raise DataError(f"{path} holds no private key: {error}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise DataError(f"{path} holds a key of another kind than Ed25519")
        return cls(key)


def trusted_keys(folder: Path) -> dict[PublicKey, str]:
    """Whose packages are taken: names of files by the key they hold."""
    found: dict[PublicKey, str] = {}
    for path in sorted((folder / TRUSTED_NAME).glob("*.pub")):
        try:
            found[PublicKey.parse(path.read_text())] = path.stem
        except (OSError, UnicodeDecodeError, DataError) as error:
            raise DataError(f"{path} cannot be used: {error}") from error
    return found
