# SPDX-License-Identifier: Apache-2.0
"""Read word vectors as others publish them: spaCy, word2vec, GloVe, and our own safetensors form.

    spaCy       a folder `vocab` with `vectors` (NumPy array) and `key2row` (msgpack: hash to row);
                `strings.json`, if it is there, tells similar spellings
    word2vec    text ("count width" in the first line) or binary (the same line, then float32)
    GloVe       text without a first line
    ours        a folder with `words.safetensors` (tensor `vectors`) and `words.txt`

Files come from the net: sizes are checked before memory is allocated. A pickle is never opened.
"""

import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from newfound_core.errors import DataError
from newfound_core.storage import write_bytes

VECTORS_NAME, WORDS_NAME = "words.safetensors", "words.txt"
MAX_WORDS, MAX_WIDTH, MAX_WORD_BYTES = 5_000_000, 4096, 1000
_PICKLE_SIGNS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_OTHER_SIGNS = (b"PK\x03\x04", b"\x1f\x8b", b"\x93NUM")
_MASK = (1 << 64) - 1


class WordVectors:
    """Vectors of words; `find` is case-sensitive, as the files are."""

    def __init__(
        self,
        vectors: np.ndarray,
        row_of: Mapping[Any, int],  # by word, or by what `key` makes of it
        key: Callable[[str], int | str] = str,
        *,
        source: str | Path = "word vectors",
        spellings: Iterable[str] | None = None,  # where `row_of` does not have the words
    ) -> None:
        if vectors.ndim != 2 or not vectors.size or not np.isfinite(vectors).all():
            raise DataError(f"{source}: expected a matrix of finite numbers, one row for a word")
        self.vectors = vectors
        self._row_of = row_of
        self._key = key
        self._spellings = spellings

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return self.vectors.shape[1]

    def find(self, word: str) -> np.ndarray | None:
        """The vector of a word, float64, or None."""
        row = self._row_of.get(self._key(word))
        return None if row is None else self.vectors[row].astype(np.float64)

    def spellings(self) -> Iterator[str]:
        """The words, where the files tell them."""
        known = self._row_of if self._spellings is None else self._spellings
        return (word for word in known if isinstance(word, str))


def read_word_vectors(path: str | PathLike[str], limit: int = 400_000) -> WordVectors:
    """Read a file or folder of any of the forms; of long text and binary files the first `limit`.

    Such files are sorted by frequency, so the words left out are rare.
    """
    path = Path(path).expanduser()
    path = path.parent if path.name == VECTORS_NAME else path
    try:
        if path.is_dir():
            return _read_folder(path)
        if not path.is_file():
            raise DataError(f"there are no word vectors at {path}")
        with path.open("rb") as file:
            start = file.read(4)
            file.seek(0)
            _refuse_pickle(start, path)
            return _read_lines(file, path, limit)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def write_word_vectors(folder: Path, words: list[str], vectors: np.ndarray) -> None:
    """Write our own form, in half precision."""
    if len(set(words)) != len(words) or len(words) != len(vectors):
        raise DataError(f"{len(set(words))} different words do not fit {len(vectors)} vectors")
    if any(word.splitlines() != [word] for word in words):
        raise DataError("a word is empty or has a line break")
    with np.errstate(over="ignore"):
        half = np.asarray(vectors, np.float16)
    if not np.isfinite(half).all():
        raise DataError("word vectors must be finite, and below 65504 for half precision")
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / VECTORS_NAME, save({"vectors": half}))
    write_bytes(folder / WORDS_NAME, ("\n".join(words) + "\n").encode())


def _refuse_pickle(start: bytes, path: Path) -> None:
    if start.startswith(_PICKLE_SIGNS) or path.suffix in (".pkl", ".pickle", ".pt", ".pth"):
        raise DataError(f"{path} is a pickle, which is never opened: use word2vec, GloVe, spaCy "
                        "or safetensors files")  # fmt: skip
    if start.startswith(_OTHER_SIGNS):
        raise DataError(f"{path} is an archive or a NumPy file: use word2vec, GloVe (both "
                        "unpacked), spaCy or safetensors files")  # fmt: skip


# Folders -----------------------------------------------------------------------------------


def _read_folder(folder: Path) -> WordVectors:
    if (folder / VECTORS_NAME).is_file():
        return _read_ours(folder)
    for place in (folder, folder / "vocab"):
        if (place / "key2row").is_file() and (place / "vectors").is_file():
            return _read_spacy(place)
    raise DataError(f"{folder} holds neither {VECTORS_NAME} nor spaCy's vectors and key2row")


def _read_ours(folder: Path) -> WordVectors:
    try:
        vectors = load((folder / VECTORS_NAME).read_bytes())["vectors"]
        words = (folder / WORDS_NAME).read_text(encoding="utf-8").splitlines()
    except (SafetensorError, KeyError, UnicodeDecodeError) as error:
        raise DataError(f"{folder} does not hold word vectors in our form: {error}") from error
    if vectors.ndim != 2 or len(words) != len(vectors) or len(set(words)) != len(words):
        raise DataError(f"{folder}: {len(set(words))} different words do not fit vectors of "
                        f"shape {list(vectors.shape)}")  # fmt: skip
    rows = {word: row for row, word in enumerate(words)}
    return WordVectors(vectors.astype(np.float32), rows, source=folder)


def _read_spacy(folder: Path) -> WordVectors:
    try:
        # Mapped first: memory is taken for what the file has, not for what its header says.
        vectors = np.array(np.lib.format.open_memmap(folder / "vectors", mode="r"))
    except (ValueError, OverflowError) as error:
        raise DataError(f"{folder / 'vectors'} is not a plain NumPy array: {error}") from error
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise DataError(f"{folder / 'vectors'} is not a matrix of numbers")
    row_of = read_key2row((folder / "key2row").read_bytes())
    if row_of and max(row_of.values()) >= len(vectors):
        raise DataError(f"{folder}: key2row names rows beyond the {len(vectors)} vectors")
    return WordVectors(
        vectors, row_of, spacy_hash, source=folder, spellings=_spacy_strings(folder, row_of)
    )


def _spacy_strings(folder: Path, row_of: Mapping[int, int]) -> list[str]:
    """The words of the rows, as far as spaCy wrote them down."""
    path = folder / "strings.json"
    if not path.is_file():
        return []
    try:
        strings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not a list of words: {error}") from error
    if not isinstance(strings, list):
        raise DataError(f"{path} is not a list of words")
    return [word for word in strings if isinstance(word, str) and spacy_hash(word) in row_of]


def spacy_hash(word: str) -> int:
    """The key of a word in spaCy: MurmurHash64A of its UTF-8 with seed 1."""
    data, multiplier = word.encode(), 0xC6A4A7935BD1E995
    value = (1 ^ (len(data) * multiplier)) & _MASK
    whole = len(data) // 8 * 8
    for (part,) in struct.iter_unpack("<Q", data[:whole]):
        mixed = part * multiplier & _MASK
        mixed = (mixed ^ (mixed >> 47)) * multiplier & _MASK
        value = (value ^ mixed) * multiplier & _MASK
    if data[whole:]:
        value = (value ^ int.from_bytes(data[whole:], "little")) * multiplier & _MASK
    value = (value ^ (value >> 47)) * multiplier & _MASK
    return value ^ (value >> 47)


def read_key2row(data: bytes) -> dict[int, int]:
    """A msgpack map of unsigned integers to unsigned integers; anything else is a DataError."""
    try:
        count, at = _map_header(data)
        if count > MAX_WORDS:
            raise DataError(f"key2row announces {count} words, {MAX_WORDS} are allowed")
        found: dict[int, int] = {}
        for _ in range(count):
            key, at = _unsigned(data, at)
            found[key], at = _unsigned(data, at)
    except (IndexError, struct.error):
        raise DataError("key2row is cut off") from None
    if at != len(data):
        raise DataError(f"key2row has {len(data) - at} bytes behind its end")
    return found


def _map_header(data: bytes) -> tuple[int, int]:
    if data[0] & 0xF0 == 0x80:
        return data[0] & 0x0F, 1
    if data[0] == 0xDE:
        return struct.unpack_from(">H", data, 1)[0], 3
    if data[0] == 0xDF:
        return struct.unpack_from(">I", data, 1)[0], 5
    raise DataError("key2row is not a msgpack map")


_INTEGERS = {0xCC: (">B", 2), 0xCD: (">H", 3), 0xCE: (">I", 5), 0xCF: (">Q", 9)}


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 0x80:
        return first, at + 1
    if first not in _INTEGERS:
        raise DataError(f"key2row holds what is not an unsigned integer (byte {first:#x})")
    form, size = _INTEGERS[first]
    return struct.unpack_from(form, data, at + 1)[0], at + size


# Text and binary files ---------------------------------------------------------------------


def _read_lines(file: io.BufferedReader, path: Path, limit: int) -> WordVectors:
    first = file.readline(100_000)
    numbers = first.split()
    announced = len(numbers) == 2 and all(n.isdigit() and len(n) < 20 for n in numbers)
    count, width = (int(n) for n in numbers) if announced else (MAX_WORDS, len(numbers) - 1)
    if not 1 <= width <= MAX_WIDTH or not 1 <= count <= MAX_WORDS:
        raise DataError(f"{path} does not start as word2vec or GloVe files do")
    if not announced:
        file.seek(0)
    read_rows = _binary if announced and _is_binary(file, width) else _text
    wanted, rows = min(count, limit), 0
    found: dict[str, np.ndarray] = {}
    for word, vector in islice(read_rows(file, width, path), wanted):
        found.setdefault(word, vector)
        rows += 1
    if announced and rows < wanted:
        raise DataError(f"{path} is cut off after {rows} of {count} words")
    row_of = {word: row for row, word in enumerate(found)}
    return WordVectors(np.stack(list(found.values())), row_of, source=path)


def _is_binary(file: io.BufferedReader, width: int) -> bool:
    """Whether what follows the first word cannot be a line of numbers."""
    at = file.tell()
    line = file.readline(width * 40 + MAX_WORD_BYTES)
    file.seek(at)
    try:
        return len([float(n) for n in line.decode().rstrip().split(" ")[1:]]) != width
    except (ValueError, UnicodeDecodeError):
        return True


Row = tuple[str, np.ndarray]


def _text(file: io.BufferedReader, width: int, path: Path) -> Iterator[Row]:
    longest = width * 40 + MAX_WORD_BYTES
    for number, line in enumerate(iter(lambda: file.readline(longest), b""), start=1):
        # From the right: a few "words" of GloVe have blanks in them.
        parts = line.rstrip().rsplit(b" ", width)
        try:
            vector = np.array([float(n) for n in parts[1:]], np.float32)
        except ValueError:
            raise DataError(f"{path}, word {number}: expected {width} numbers") from None
        if len(vector) != width:
            raise DataError(f"{path}, word {number}: {len(vector)} numbers instead of {width}")
        yield parts[0].decode("utf-8", "replace"), vector


def _binary(file: io.BufferedReader, width: int, path: Path) -> Iterator[Row]:
    while True:
        word = bytearray()
        while (letter := file.read(1)) not in (b" ", b""):
            word += letter
            if len(word) > MAX_WORD_BYTES:
                raise DataError(f"{path}: a word of more than {MAX_WORD_BYTES} bytes")
        data = file.read(4 * width)
        if len(data) < 4 * width:
            return
        yield word.lstrip(b"\n").decode("utf-8", "replace"), np.frombuffer(data, "<f4")
