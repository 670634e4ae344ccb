# SPDX-License-Identifier: Apache-2.0
"""Packages come back as they were made, and hostile ones are refused with the reason."""

import base64
import hashlib
import io
import json
import pickle
import struct
import zipfile

import cv2
import numpy as np
import pytest

from newfound_core.errors import DataError, StorageError
from newfound_core.packages import Package, PackageError, check_trust, pack, unpack
from newfound_core.packages.classes import class_images
from newfound_core.packages.keys import SigningKey


def picture(seed=0, side=12):
    pixels = np.random.default_rng(seed).integers(0, 255, (side, side, 3)).astype(np.uint8)
    return cv2.imencode(".png", pixels)[1].tobytes()


def mug(*images, name="mug", **changes):
    """A package of a class, as it should be but for the changes."""
    images = images or (picture(0), picture(1))
    files = {f"images/{hashlib.sha256(content).hexdigest()}.png": content for content in images}
    entries = [{"file": name, "held_out": False} for name in files]
    return Package(
        **{
            "kind": "class",
            "name": name,
            "details": {"images": entries},
            "files": files,
            "provenance": {"robot": "r2"},
            **changes,
        }
    )


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return SigningKey.create(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def trusting(tmp_path, key):
    (tmp_path / "trusted").mkdir()
    (tmp_path / "trusted" / "r2.pub").write_text(key.public.text + "\n")
    return tmp_path


def test_a_package_comes_back_as_it_was_made(key, trusting):
    package = mug()
    found = unpack(pack(package, key))
    assert (found.kind, found.name, found.files) == ("class", "mug", package.files)
    assert found.digest == package.digest
    assert check_trust(found, trusting) == "r2"
    assert set(class_images(found).values()) == set(package.files.values())


def test_the_same_content_is_the_same_file(key):
    assert pack(mug(), key) == pack(mug(), key)


def test_a_package_of_a_stranger_is_not_taken(tmp_path, trusting, key):
    stranger = SigningKey.create(tmp_path / "stranger")
    with pytest.raises(PackageError, match="which is not trusted"):
        check_trust(unpack(pack(mug(), stranger)), trusting)
    with pytest.raises(PackageError, match="it is not signed"):
        check_trust(unpack(pack(mug())), trusting)
    assert check_trust(unpack(pack(mug())), trusting, require_signature=False) == ""


def test_a_key_is_private_and_never_overwritten(tmp_path):
    SigningKey.create(tmp_path)
    path = tmp_path / "signing.pem"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StorageError, match="exists already"):
        SigningKey.create(tmp_path)
    path.chmod(0o644)
    with pytest.raises(DataError, match="other users"):
        SigningKey.load(tmp_path)


# Hostile packages: each is what an attacker, or a bad disk, would make.


def entries_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def zipped(entries, **options):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, **options) as file:
        for name, content in entries:
            file.writestr(name, content)
    return buffer.getvalue()


def rewritten(package=None, key=None, **changed):
    """A package in which files were exchanged afterwards."""
    entries = entries_of(pack(package or mug(), key))
    return zipped({**entries, **changed}.items())


def with_manifest(change, package=None):
    entries = entries_of(pack(package or mug()))
    values = json.loads(entries["manifest.json"])
    change(values)
    entries["manifest.json"] = json.dumps(values, indent=1, sort_keys=True).encode()
    return zipped(entries.items())


def added(name, content=b"x"):
    return zipped([*entries_of(pack(mug())).items(), (name, content)])


def listed(name, content):
    """With a further file that the manifest lists."""

    def change(values):
        digest = hashlib.sha256(content).hexdigest()
        values["files"][name] = {"bytes": len(content), "sha256": digest}

    entries = entries_of(with_manifest(change))
    return zipped([*entries.items(), (name, content)])


def symlink():
    entries = entries_of(pack(mug()))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name)
            if name.startswith("images/"):
                info.external_attr = 0o120777 << 16
            file.writestr(info, content)
    return buffer.getvalue()


def twice():
    entries = list(entries_of(pack(mug())).items())
    with pytest.warns(UserWarning, match="Duplicate"):
        return zipped([*entries, entries[-1]])


def lying_size():
    """The directory says that a file is small, and it is not."""
    name = f"images/{'0' * 64}.png"
    content = bytearray(added(name, b"\0" * 10_000_000))
    at = content.rindex(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", 10)
    return bytes(content)


def bomb():
    return zipped([*entries_of(pack(mug())).items(), ("big.safetensors", b"\0" * (129 * 2**20))])


def encrypted():
    content = bytearray(pack(mug()))
    content[6] |= 1
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    return bytes(content)


def unknown_compression():
    content = bytearray(pack(mug()))
    at = content.index(b"PK\x01\x02")
    content[8:10] = content[at + 10 : at + 12] = struct.pack("<H", 99)
    return bytes(content)


def flipped(key):
    content = bytearray(pack(mug(), key))
    content[60] ^= 0xFF
    return bytes(content)


def resigned(key, text):
    """A right signature of something else."""
    other = {
        "algorithm": "ed25519",
        "key": key.public.text,
        "signature": base64.b64encode(key.sign(text)).decode(),
    }
    return rewritten(key=key, **{"signature.json": json.dumps(other).encode()})


def signature_with(key, /, **changes):
    values = json.loads(entries_of(pack(mug(), key))["signature.json"]) | changes
    return rewritten(key=key, **{"signature.json": json.dumps(values).encode()})


def rename_kind(values):
    values["kind"] = "virus"


HOSTILE = {
    "nothing": lambda key: (b"", "no zip file"),
    "text": lambda key: (b"hello", "no zip file"),
    "a pickle": lambda key: (pickle.dumps({"a": 1}), "no zip file"),
    "a program before the zip": lambda key: (b"#!/bin/sh\n" + pack(mug()), "no zip file"),
    "cut off": lambda key: (pack(mug())[:-30], "damaged|cannot be read"),
    "a flipped byte": lambda key: (flipped(key), "damaged|not what|cannot be read"),
    "a path upwards": lambda key: (added("../../etc/passwd"), "no package has"),
    "an absolute path": lambda key: (added("/etc/passwd"), "no package has"),
    "a backslash path": lambda key: (added("..\\evil.png"), "no package has"),
    "a path upwards among images": lambda key: (added("images/../../x.png"), "no package has"),
    "a listed pickle": lambda key: (listed("model.pkl", pickle.dumps(1)), "wrong form|no package"),
    "a script": lambda key: (added("setup.py", b"print(1)"), "no package has"),
    "a symbolic link": lambda key: (symlink(), "not a plain file"),
    "two files of one name": lambda key: (twice(), "two files of one name"),
    "a file not listed": lambda key: (added("more.safetensors"), "does not list"),
    "a bomb": lambda key: (bomb(), "more than"),
    "a lie about a size": lambda key: (lying_size(), "does not list|damaged|not what|cannot"),
    "too many files": lambda key: (
        zipped([(f"f{n}.safetensors", b"") for n in range(1100)]), "1100 files"),
    "encrypted": lambda key: (encrypted(), "cannot be read|damaged"),
    "an unknown compression": lambda key: (unknown_compression(), "compressed in a way"),
    "no manifest": lambda key: (zipped([("a.safetensors", b"")]), "manifest.json is missing"),
    "a manifest that is no JSON": lambda key: (
        rewritten(**{"manifest.json": b"{"}), "manifest.json is damaged"),
    "a manifest that is a list": lambda key: (
        rewritten(**{"manifest.json": b"[]"}), "no object"),
    "a manifest deep as a well": lambda key: (
        rewritten(**{"manifest.json": b"[" * 100_000}), "damaged"),
    "a manifest with a key twice": lambda key: (
        rewritten(**{"manifest.json": b'{"format": 1, "format": 1}'}), "twice"),
    "a manifest with NaN": lambda key: (
        rewritten(**{"manifest.json": b'{"format": NaN}'}), "not a number"),
    "a huge manifest": lambda key: (
        rewritten(**{"manifest.json": b" " * 3_000_000}), "more than"),
    "a manifest of a later format": lambda key: (
        with_manifest(lambda v: v.update(format=2)), "format 2"),
    "an unknown kind": lambda key: (with_manifest(rename_kind), "not known"),
    "a manifest with more": lambda key: (
        with_manifest(lambda v: v.update(exec="rm")), "must have"),
    "another digest": lambda key: (
        with_manifest(lambda v: next(iter(v["files"].values())).update(sha256="0" * 64)),
        "changed or damaged"),
    "a negative size": lambda key: (
        with_manifest(lambda v: next(iter(v["files"].values())).update(bytes=-1)), "wrong form"),
    "a size beyond all bounds": lambda key: (
        with_manifest(lambda v: next(iter(v["files"].values())).update(bytes=2**60)),
        "wrong form"),
    "a changed name under the old signature": lambda key: (
        rewritten(key=key, **{"manifest.json": mug(name="bomb").manifest()}),
        "signature does not"),
    "a signature of something else": lambda key: (
        resigned(key, b"something else"), "signature does not"),
    "a signature of the bare manifest": lambda key: (
        resigned(key, mug().manifest()), "signature does not"),
    "a short key": lambda key: (signature_with(key, key="AAAA"), "32 bytes"),
    "a signature that is no base64": lambda key: (
        signature_with(key, signature="!!"), "cannot be read"),
    "another algorithm": lambda key: (signature_with(key, algorithm="none"), "not known"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_package_is_refused_with_the_reason(name, key):
    content, reason = HOSTILE[name](key)
    with pytest.raises(PackageError, match=reason):
        unpack(content)


def image_bomb():
    """A PNG of 60,000 x 60,000 pixels in a few bytes."""
    content = bytearray(picture())
    content[16:24] = struct.pack(">II", 60_000, 60_000)
    return bytes(content)


HOSTILE_CLASSES = {
    "a label that is a path": (lambda: mug(name="../mug"), "looks like a path"),
    "an empty label": (lambda: mug(name=" "), "empty"),
    "a label that cannot be printed": (lambda: mug(name="mug\x1b[2J"), "cannot be printed"),
    "an endless label": (lambda: mug(name="m" * 10_000), "10000 characters"),
    "another kind": (lambda: mug(kind="task_delta"), "no class"),
    "no images": (lambda: mug(details={"images": []}), "lists no images"),
    "images that are not there": (
        lambda: mug(details={"images": [{"file": "images/x.png", "held_out": False}]}),
        "not in it",
    ),
    "details of another form": (lambda: mug(details={"images": [1, 2]}), "wrong form"),
    "a text as image": (lambda: mug(b"not an image", picture()), "no image"),
    "an image of 3,600 megapixels": (lambda: mug(image_bomb(), picture()), "no image|too many"),
    "weights besides": (
        lambda: mug(files={**mug().files, "head.safetensors": b"x"}),
        "no images of the class",
    ),
}


@pytest.mark.parametrize("name", HOSTILE_CLASSES)
def test_a_hostile_class_is_refused_with_the_reason(name):
    make, reason = HOSTILE_CLASSES[name]
    package = unpack(pack(make()))
    with pytest.raises(PackageError, match=reason):
        class_images(package)
