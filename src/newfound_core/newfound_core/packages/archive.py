# SPDX-License-Identifier: Apache-2.0
"""A package on disk: a zip file that is read as if an enemy had made it.

    manifest.json     kind, name, provenance, details, and size and SHA-256 of every other file
    signature.json    Ed25519 signature of the manifest's bytes, and the public key
    images/<sha256>.jpg|png, *.safetensors

Nothing is extracted: files are read into memory, up to limits that hold whatever the archive says
of itself. Only names of the forms above are taken, only files that the manifest lists, and only
if they are what it says; nothing may lie before, between or behind them. Nothing in a package is
executed or unpickled.
"""

import base64
import binascii
import hashlib
import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from newfound_core.errors import DataError
from newfound_core.packages.keys import PublicKey, SigningKey, trusted_keys

FORMAT = 1
Kind = Literal["class", "task_delta", "segmentation_class"]
MOST_BYTES = 128 * 2**20  # of a package, and of its files together
MOST_FILES = 1000
_MOST_JSON = 2 * 2**20
_MOST_FACTS, _LONGEST_FACT = 20, 200  # of the provenance: entries, characters
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # zipfile inflates others unlimited
_LOCAL, _CENTRAL, _END = 30, 46, 22  # bytes of zip headers, but for names
_MANIFEST, _SIGNATURE = "manifest.json", "signature.json"
_NAME = re.compile(r"(images/[0-9a-f]{64}\.(jpg|png)|[a-z][a-z0-9_]{0,40}\.safetensors)")
_CONTEXT = b"newfound package\0"  # a signature of anything else does not fit
_DATE = (1980, 1, 1, 0, 0, 0)  # the same content is the same file


class PackageError(DataError):
    """A package that cannot be used, and why."""


@dataclass(frozen=True)
class Package:
    """What a package holds; `kind` says what `details` and `files` mean."""

    kind: Kind
    name: str
    details: Mapping[str, Any]
    files: Mapping[str, bytes]
    provenance: Mapping[str, str] = field(default_factory=dict)
    signer: PublicKey | None = None  # whose signature was found right

    def __post_init__(self) -> None:
        facts = [text for item in self.provenance.items() for text in item]
        if len(self.provenance) > _MOST_FACTS or not all(map(_is_fact, facts)):
            raise PackageError(
                f"where a package comes from is told in at most {_MOST_FACTS} printable texts of "
                f"at most {_LONGEST_FACT} characters"
            )

    def manifest(self) -> bytes:
        """The bytes that are signed."""
        values = {
            "format": FORMAT,
            "kind": self.kind,
            "name": self.name,
            "provenance": dict(self.provenance),
            "details": dict(self.details),
            "files": {
                name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                for name, content in sorted(self.files.items())
            },
        }
        return json.dumps(values, indent=1, sort_keys=True, allow_nan=False).encode()

    @property
    def digest(self) -> str:
        """What the package is known by: SHA-256 of its manifest."""
        return hashlib.sha256(self.manifest()).hexdigest()


def pack(package: Package, key: SigningKey | None = None) -> bytes:
    """The package as a file; the same content and key give the same bytes."""
    for name in package.files:
        if not _NAME.fullmatch(name):
            raise PackageError(f"a package cannot hold a file {name!r}")
    manifest, buffer = package.manifest(), io.BytesIO()
    entries = {_MANIFEST: manifest, **dict(sorted(package.files.items()))}
    if key is not None:
        signature = {
            "algorithm": "ed25519",
            "key": key.public.text,
            "signature": base64.b64encode(key.sign(_CONTEXT + manifest)).decode(),
        }
        entries[_SIGNATURE] = json.dumps(signature, indent=1).encode()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    if buffer.tell() > MOST_BYTES or len(package.files) > MOST_FILES:
        raise PackageError(f"the package is too large: {buffer.tell()} bytes")
    return buffer.getvalue()


def unpack(content: bytes) -> Package:
    """Read a package; whatever is not as `pack` writes it is a PackageError.

    A signature that is there must be right; whose it is, is for the caller to judge.
    """
    if len(content) > MOST_BYTES:
        raise PackageError(f"it has {len(content)} bytes, at most {MOST_BYTES} are read")
    if not content.startswith(b"PK\x03\x04"):
        raise PackageError("it is no zip file")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = _entries(archive)
            _check_layout(archive, len(content))
            manifest = _read(archive, entries, _MANIFEST, _MOST_JSON)
            package = _parse(manifest)
            listed = json.loads(manifest)["files"]
            _check_listing(entries, listed)
            files = {name: _file(archive, entries, name, facts) for name, facts in listed.items()}
            signer = None
            if _SIGNATURE in entries:
                signer = _signer(_read(archive, entries, _SIGNATURE, _MOST_JSON), manifest)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise PackageError(f"the zip file is damaged: {error}") from error
    except (RuntimeError, ValueError) as error:  # encrypted; absurd offsets
        raise PackageError(f"the zip file cannot be read: {error}") from error
    package = replace(package, files=files, signer=signer)
    try:
        same = package.manifest() == manifest
    except RecursionError:  # reading goes deeper than writing
        same = False
    if not same:
        raise PackageError("the manifest is not written as packages write it")
    return package


def check_trust(package: Package, keys: Path, *, require_signature: bool = True) -> str:
    """Who signed the package, by the name given to the key; a PackageError if not trusted."""
    if package.signer is None:
        if require_signature:
            raise PackageError("it is not signed, and only signed packages are taken")
        return ""
    trusted = trusted_keys(keys)
    if package.signer not in trusted:
        if require_signature:
            raise PackageError(
                f"it is signed with the key {package.signer.text}, which is not trusted: put that "
                f"into a file *.pub below {keys / 'trusted'} if you know whose it is"
            )
        return ""
    return trusted[package.signer]


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MOST_FILES + 2:
        raise PackageError(f"it has {len(infos)} files, at most {MOST_FILES} are read")
    entries = {info.filename: info for info in infos}
    if len(entries) != len(infos):
        raise PackageError("it has two files of one name")
    for name, info in entries.items():
        if name not in (_MANIFEST, _SIGNATURE) and not _NAME.fullmatch(name):
            raise PackageError(f"it holds {name[:100]!r}, which no package has")
        if (info.external_attr >> 16) & 0o170000 not in (0, 0o100000):
            raise PackageError(f"{name} is not a plain file")
        if info.compress_type not in _COMPRESSIONS:
            raise PackageError(f"{name} is compressed in a way that packages are not")
    if sum(info.file_size for info in infos) > MOST_BYTES:
        raise PackageError(f"unpacked it has more than {MOST_BYTES} bytes")
    return entries


def _check_layout(archive: zipfile.ZipFile, size: int) -> None:
    """Files one behind the other, then their directory: room for nothing else, and no overlap."""
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    at = 0
    for info in infos:
        if info.header_offset != at:
            raise PackageError(f"there is something before {info.filename}, or files overlap")
        at += _LOCAL + len(info.filename) + info.compress_size
    directory = sum(_CENTRAL + len(info.filename) for info in infos)
    if archive.start_dir != at or size != at + directory + _END:
        raise PackageError("there is something between or behind its files")


def _read(
    archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], name: str, most: int
) -> bytes:
    """Read a file, no further than allowed: the size in the archive may be a lie."""
    if name not in entries:
        raise PackageError(f"{name} is missing")
    with archive.open(entries[name]) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise PackageError(f"{name} has more than {most} bytes")
    return content


def _file(
    archive: zipfile.ZipFile,
    entries: Mapping[str, zipfile.ZipInfo],
    name: str,
    facts: Mapping[str, Any],
) -> bytes:
    content = _read(archive, entries, name, facts["bytes"])
    digest = hashlib.sha256(content).hexdigest()
    if len(content) != facts["bytes"] or digest != facts["sha256"]:
        raise PackageError(f"{name} is not what the manifest says: it was changed or damaged")
    if name.startswith("images/") and not name.startswith(f"images/{digest}."):
        raise PackageError(f"{name} is not the image that its name says")
    return content


def _check_listing(entries: Mapping[str, Any], listed: Mapping[str, Any]) -> None:
    extra = set(entries) - set(listed) - {_MANIFEST, _SIGNATURE}
    if extra:
        raise PackageError(f"the manifest does not list {min(extra)}")


def _parse(content: bytes) -> Package:
    values = _json(content, _MANIFEST)
    if values.get("format") != FORMAT:
        raise PackageError(
            f"it is of format {str(values.get('format'))[:20]}, this version of newfound reads "
            f"{FORMAT}"
        )
    expected = {"format", "kind", "name", "provenance", "details", "files"}
    if set(values) != expected:
        raise PackageError(f"the manifest must have {sorted(expected)}")
    if values["kind"] not in get_args(Kind):
        raise PackageError(f"it is of the kind {str(values['kind'])[:40]!r}, which is not known")
    provenance, files = values["provenance"], values["files"]
    maps = isinstance(provenance, dict) and isinstance(values["details"], dict)
    if not (maps and isinstance(values["name"], str)):
        raise PackageError("the manifest's name, provenance or details have a wrong form")
    if not isinstance(files, dict) or not all(_is_listing(*item) for item in files.items()):
        raise PackageError("the manifest's list of files has a wrong form")
    if sum(facts["bytes"] for facts in files.values()) > MOST_BYTES:
        raise PackageError(f"unpacked it has more than {MOST_BYTES} bytes")
    return Package(values["kind"], values["name"], values["details"], {}, provenance)


def _is_fact(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= _LONGEST_FACT and text.isprintable()


def _is_listing(name: str, facts: Any) -> bool:
    return (
        bool(_NAME.fullmatch(name))
        and isinstance(facts, dict)
        and set(facts) == {"bytes", "sha256"}
        and type(facts["bytes"]) is int
        and 0 <= facts["bytes"] <= MOST_BYTES
        and isinstance(facts["sha256"], str)
        and bool(re.fullmatch(r"[0-9a-f]{64}", facts["sha256"]))
    )


def _signer(content: bytes, manifest: bytes) -> PublicKey:
    values = _json(content, _SIGNATURE)
    if set(values) != {"algorithm", "key", "signature"} or values["algorithm"] != "ed25519":
        raise PackageError("the signature is of a form that is not known")
    try:
        key = PublicKey.parse(values["key"])
        signature = base64.b64decode(values["signature"], validate=True)
    except (DataError, TypeError, binascii.Error) as error:
        raise PackageError(f"the signature cannot be read: {error}") from error
    if not key.verifies(signature, _CONTEXT + manifest):
        raise PackageError(
            "the signature does not fit: the package was changed after it was signed"
        )
    return key


def _json(content: bytes, name: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key occurs twice")
        return dict(pairs)

    def finite(text: str) -> float:
        if not math.isfinite(value := float(text)):
            raise ValueError(f"{text[:20]} is not a number")
        return value

    try:
        values = json.loads(
            content, object_pairs_hook=once, parse_constant=finite, parse_float=finite
        )
    except (ValueError, RecursionError) as error:
        raise PackageError(f"{name} is damaged: {error}") from error
    if not isinstance(values, dict):
        raise PackageError(f"{name} is damaged: it holds no object")
    return values
