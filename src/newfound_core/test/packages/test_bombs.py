# SPDX-License-Identifier: Apache-2.0
"""Packages that want all the memory, or hide something, are refused before they get it."""

import hashlib
import io
import json
import random
import resource
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace

import cv2
import numpy as np
import pytest

from newfound_core.packages import Package, PackageError, pack, unpack
from newfound_core.packages.classes import class_images

MEGA = 2**20
LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"


def picture(seed: int = 0) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (12, 12, 3)).astype(np.uint8)
    return cv2.imencode(".png", pixels)[1].tobytes()


def mug(*images: bytes) -> Package:
    images = images or (picture(0), picture(1))
    files = {f"images/{hashlib.sha256(content).hexdigest()}.png": content for content in images}
    entries = [{"file": name, "held_out": False} for name in files]
    return Package("class", "mug", {"images": entries}, files, {"robot": "r2"})


GOOD = pack(mug())


def entries() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(GOOD)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, mode: int = 0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, method
            file.writestr(info, content)
    return buffer.getvalue()


def with_manifest(content: bytes) -> bytes:
    return zipped({**entries(), "manifest.json": content})


def edited(old: str, new: str) -> bytes:
    manifest = entries()["manifest.json"].decode()
    assert old in manifest
    return with_manifest(manifest.replace(old, new, 1).encode())


def claiming(content: bytes, name: str, size: int) -> bytes:
    """The directory says that a file has another size."""
    changed, at = bytearray(content), -1
    while (at := changed.index(CENTRAL, at + 1)) is not None:
        if changed[at + 46 : at + 46 + len(name)] == name.encode():
            changed[at + 24 : at + 28] = struct.pack("<I", size)
            return bytes(changed)


def bomb(method: int) -> bytes:
    """A manifest of 60 MB in a few bytes, which the directory says is small."""
    files = {**entries(), "manifest.json": bytes(60 * MEGA)}
    return claiming(zipped(files, method), "manifest.json", 1000)


def overlapping() -> bytes:
    """900 entries of the directory that share the bytes of one file."""
    raw = bytes(120 * 1024)
    body = zlib.compress(raw, 9)[2:-4]
    names = [f"f{number}.safetensors".encode() for number in range(900)]
    sizes = struct.pack("<3I", zlib.crc32(raw), len(body), len(raw))
    head = struct.pack("<5H", 20, 0, 8, 0, 33) + sizes
    content = LOCAL + head + struct.pack("<2H", len(names[0]), 0) + names[0] + body
    rest = struct.pack("<4H2I", 0, 0, 0, 0, 0, 0)
    directory = b"".join(
        CENTRAL + b"\x14\0" + head + struct.pack("<H", len(name)) + rest + name for name in names
    )
    counts = struct.pack("<4H2IH", 0, 0, 900, 900, len(directory), len(content), 0)
    return content + directory + END + counts


def with_comment() -> bytes:
    return GOOD[:-2] + struct.pack("<H", 5) + b"hello"


def with_gap() -> bytes:
    """Bytes between the files and their directory."""
    end = GOOD.rindex(END)
    start = struct.unpack_from("<I", GOOD, end + 16)[0]
    changed = bytearray(GOOD[:start] + b"hidden" * 10 + GOOD[start:])
    struct.pack_into("<I", changed, end + 60 + 16, start + 60)
    return bytes(changed)


def with_extra_field() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in entries().items():
            info = zipfile.ZipInfo(name)
            info.extra = struct.pack("<2H", 0xCAFE, 4) + b"evil"
            file.writestr(info, content)
    return buffer.getvalue()


def deep(depth: int) -> bytes:
    """As deep as Python still reads it; written as packages are."""
    inner: dict = {}
    for _ in range(depth):
        inner = {"a": inner}
    return pack(replace(mug(), details={**mug().details, "more": inner}))


def too_deep() -> bytes:
    lists = "[" * 950 + "]" * 950
    return edited('"details": {', f'"details": {{"more": {lists},')


ARCHIVES = {
    "a bzip2 bomb": (lambda: bomb(zipfile.ZIP_BZIP2), "compressed in a way"),
    "an lzma bomb": (lambda: bomb(zipfile.ZIP_LZMA), "compressed in a way"),
    "a deflate bomb": (lambda: bomb(zipfile.ZIP_DEFLATED), "damaged|more than"),
    "a bomb that does not lie": (lambda: with_manifest(bytes(3 * MEGA)), "more than"),
    "entries that overlap": (overlapping, "overlap"),
    "a package before the package": (lambda: GOOD + GOOD, "something before"),
    "a program behind the package": (lambda: GOOD + b"#!/bin/sh\n", "something"),
    "a comment": (with_comment, "something"),
    "hidden bytes": (with_gap, "something"),
    "extra fields": (with_extra_field, "something before"),
    "a folder": (lambda: zipped({**entries(), "images/": b""}), "no package has"),
    "a second manifest in capitals": (
        lambda: zipped({**entries(), "MANIFEST.JSON": b"{}"}),
        "no package has",
    ),
    "a name that ends with zero": (
        lambda: GOOD.replace(b"manifest.json", b"manifest\0json"),
        "no package has",
    ),
    "a named pipe": (lambda: zipped(entries(), mode=0o010644), "not a plain file"),
    "a device": (lambda: zipped(entries(), mode=0o060644), "not a plain file"),
    "a socket": (lambda: zipped(entries(), mode=0o140644), "not a plain file"),
    "infinity by its digits": (lambda: edited('"format": 1', '"format": 1e999'), "1e999"),
    "minus infinity": (lambda: edited('"format": 1', '"format": -Infinity'), "not a number"),
    "a number of 5,000 digits": (
        lambda: edited('"format": 1', f'"format": {"9" * 5000}'),
        "damaged",
    ),
    "a format that is true": (lambda: edited('"format": 1', '"format": true'), "not written as"),
    "UTF-16": (
        lambda: with_manifest(entries()["manifest.json"].decode().encode("utf-16")),
        "not written as",
    ),
    "a byte order mark": (
        lambda: with_manifest(b"\xef\xbb\xbf" + entries()["manifest.json"]),
        "not written as",
    ),
    "lists without end": (too_deep, "not written as|damaged|cannot be read"),
    "a robot that cannot be printed": (lambda: edited('"r2"', r'"\ud800"'), "printable"),
    "a robot with control characters": (lambda: edited('"r2"', r'"\u001b[2J"'), "printable"),
    "a robot's name of a megabyte": (lambda: edited('"r2"', f'"{"x" * MEGA}"'), "200 characters"),
    "a robot that is a number": (lambda: edited('"r2"', "2"), "printable"),
    "a thousand facts": (
        lambda: edited('"robot": "r2"', ",".join(f'"f{number}": ""' for number in range(1000))),
        "at most 20",
    ),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_it_is_refused_without_taking_the_memory(name: str):
    make, reason = ARCHIVES[name]
    content = make()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PackageError, match=reason):
        unpack(content)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024  # KB


def chunk(kind: bytes, data: bytes) -> bytes:
    crc = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + crc


def header(width: int, height: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))


def begun(width: int, height: int) -> bytes:
    """The beginning of a picture: its size is looked at before anything is decoded."""
    return picture()[:8] + header(width, height) + chunk(b"IDAT", zlib.compress(b""))


def two_sizes(where: int) -> bytes:
    """A PNG that says twice how large it is."""
    found = picture()
    return found[:where] + header(20_000, 20_000) + found[where:]


def another_jpeg_size() -> bytes:
    content = cv2.imencode(".jpg", np.zeros((16, 16, 3), np.uint8))[1].tobytes()
    at = content.index(b"\xff\xc0")
    frame = bytearray(content[at : at + 2 + struct.unpack_from(">H", content, at + 2)[0]])
    frame[5:9] = struct.pack(">2H", 60_000, 60_000)
    return content[:at] + bytes(frame) + content[at:]


def entries_with(**change) -> Package:
    package = mug()
    return replace(package, details={"images": [e | change for e in package.details["images"]]})


CLASSES = {
    "an image far too large": (lambda: mug(begun(4100, 4000)), "too many"),
    "large images, many of them": (
        lambda: mug(*(begun(3990, 3980 + number) for number in range(8))),
        "100 megapixels together",
    ),
    "a large size before the true one": (lambda: mug(two_sizes(8)), "no image|decoded"),
    "a large size behind the true one": (lambda: mug(two_sizes(33)), "no image|decoded"),
    "a JPEG of two sizes": (lambda: mug(another_jpeg_size()), "no image|decoded"),
    "a drawing": (lambda: mug(b"<svg/>"), "no image"),
    "a film": (lambda: mug(b"GIF89a" + bytes(50)), "no image"),
    "half an image": (lambda: mug(picture()[:-100]), "no image|decoded"),
    "an image listed 100 times": (
        lambda: replace(mug(), details={"images": mug().details["images"] * 50}),
        "wrong form",
    ),
    "a text where yes or no belongs": (lambda: entries_with(held_out="yes"), "wrong form"),
    "a list as a file's name": (lambda: entries_with(file=["a"]), "not in it"),
    "details as deep as can be": (lambda: unpack(deep(300)), "lists no images"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_hostile_class_is_refused_before_it_is_learned(name: str):
    make, reason = CLASSES[name]
    package = unpack(pack(make()))
    with pytest.raises(PackageError, match=reason):
        class_images(package)


def mutated(generator: random.Random) -> Iterator[bytes]:
    """Packages as bad disks and lines make them."""
    while True:
        content = bytearray(GOOD)
        for _ in range(generator.choice((1, 1, 2, 5))):
            at = generator.randrange(len(content))
            kind = generator.randrange(4)
            if kind == 0:
                content[at] = generator.randrange(256)
            elif kind == 1:
                del content[at : at + generator.randrange(1, 40)]
            elif kind == 2:
                content[at:at] = generator.randbytes(generator.randrange(1, 40))
            else:
                content = content[: max(at, 40)]
        yield bytes(content)


def test_whatever_is_damaged_is_refused_or_read_as_it_was():
    for _, content in zip(range(2000), mutated(random.Random(0)), strict=False):
        try:
            package = unpack(content)
        except PackageError:
            continue
        assert json.loads(package.manifest()) == json.loads(mug().manifest())
