# SPDX-License-Identifier: Apache-2.0
import io
import struct

import numpy as np
import pytest

from newfound_core.errors import DataError
from newfound_core.naming.word_files import (
    read_key2row,
    read_word_vectors,
    spacy_hash,
    write_word_vectors,
)

WORDS = ["hammer", "tea", "pot"]
VECTORS = np.arange(12, dtype=np.float32).reshape(3, 4) + 0.5


def pack(number: int) -> bytes:
    return bytes([number]) if number < 128 else b"\xcf" + struct.pack(">Q", number)


def spacy_folder(folder, rows=(0, 1, 2)):
    folder.mkdir(exist_ok=True)
    with (folder / "vectors").open("wb") as file:
        np.save(file, VECTORS)
    pairs = [pack(spacy_hash(w)) + pack(r) for w, r in zip(WORDS, rows, strict=True)]
    (folder / "key2row").write_bytes(bytes([0x80 | len(pairs)]) + b"".join(pairs))
    return folder


def text(header: str) -> bytes:
    lines = [f"{w} {' '.join(map(str, v))}\n" for w, v in zip(WORDS, VECTORS, strict=True)]
    return (header + "".join(lines)).encode()


def binary() -> bytes:
    rows = zip(WORDS, VECTORS, strict=True)
    return b"3 4\n" + b"".join(w.encode() + b" " + v.tobytes() + b"\n" for w, v in rows)


def test_the_hash_is_that_of_spacy():
    # Values of spacy.strings.get_string_id.
    assert spacy_hash("apple") == 8566208034543834098
    assert spacy_hash("coffee") == 3197928453018144401


@pytest.mark.parametrize("content", [text("3 4\n"), text(""), binary()])
def test_text_and_binary_files_are_read(content, tmp_path):
    path = tmp_path / "words.vec"
    path.write_bytes(content)
    words = read_word_vectors(path)
    assert np.array_equal(words.find("tea"), VECTORS[1])
    assert words.find("Tea") is None
    assert list(words.spellings()) == WORDS


def test_the_vectors_of_spacy_are_read(tmp_path):
    words = read_word_vectors(spacy_folder(tmp_path / "vocab").parent)
    assert np.array_equal(words.find("pot"), VECTORS[2])
    assert words.find("unheard") is None


def test_spacys_list_of_strings_tells_similar_spellings(tmp_path):
    folder = spacy_folder(tmp_path / "vocab")
    (folder / "strings.json").write_text('["hammer", "a word without a row", 3]')
    assert list(read_word_vectors(folder).spellings()) == ["hammer"]
    (folder / "strings.json").write_text('{"hammer": 1}')
    with pytest.raises(DataError, match="not a list of words"):
        read_word_vectors(folder)


@pytest.mark.parametrize("name", ["", "words.safetensors"])
def test_our_own_form_comes_back(name, tmp_path):
    write_word_vectors(tmp_path, WORDS, VECTORS)
    assert np.array_equal(read_word_vectors(tmp_path / name).find("hammer"), VECTORS[0])


@pytest.mark.parametrize(
    ("words", "vectors", "message"),
    [
        (["tea", "two\u2028lines"], np.eye(2), "line break"),
        (["tea", ""], np.eye(2), "empty"),
        (["tea", "tea"], np.eye(2), "do not fit"),
        (["tea", "pot"], np.array([[1.0, 0], [0, 1e6]]), "half precision"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(words, vectors, message, tmp_path):
    with pytest.raises(DataError, match=message):
        write_word_vectors(tmp_path, words, vectors)


def row(word: str, *numbers: float) -> bytes:
    return word.encode() + b" " + np.array(numbers, "<f4").tobytes() + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        b"3 2\ntea 1 2\npot 3 4\ntea 5 6\n",
        b"tea 1 2\npot 3 4\ntea 5 6\n",
        b"3 2\n" + row("tea", 1, 2) + row("pot", 3, 4) + row("tea", 5, 6),
    ],
)
def test_of_a_word_that_comes_twice_the_first_vector_counts(content, tmp_path):
    (tmp_path / "w").write_bytes(content)
    words = read_word_vectors(tmp_path / "w")
    assert list(words.spellings()) == ["tea", "pot"]
    assert words.find("tea").tolist() == [1, 2]


def test_only_the_first_words_of_a_long_file_are_kept(tmp_path):
    (tmp_path / "w").write_bytes(binary())
    words = read_word_vectors(tmp_path / "w", limit=2)
    assert words.find("tea") is not None
    assert words.find("pot") is None


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x95\x10\x00",  # a pickle
        b"PK\x03\x04rest",
        b"\x1f\x8b\x08rest",
        b"\x93NUMPYrest",
        b"",
        b"9" * 5000 + b" 3\n",
        b"99999999999 300\nword 1 2",
        b"3 400000\n",
        text("3 4\n")[:-20],
        binary()[:-9],
        b"tea 1 2 3\npot 1 x 3\n",
        b"tea 1 2 3\npot 1 2\n",
        b"tea nan 2 3\n",
        b"2 4\n" + b"x" * 5000 + b" " + VECTORS[0].tobytes(),
    ],
)
def test_hostile_or_damaged_files_are_refused(content, tmp_path):
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(DataError):
        read_word_vectors(tmp_path / "w")


@pytest.mark.parametrize(
    "content", [b"", b"\x93", b"\xdf\xff\xff\xff\xff", b"\x81\x01", b"\x81\x01\xc0", b"\x80\x01"]
)
def test_a_damaged_map_is_refused(content):
    with pytest.raises(DataError, match="key2row"):
        read_key2row(content)


def test_rows_beyond_the_vectors_and_arrays_of_objects_are_refused(tmp_path):
    with pytest.raises(DataError, match="beyond"):
        read_word_vectors(spacy_folder(tmp_path / "a", rows=(0, 1, 7)))
    folder = spacy_folder(tmp_path / "b")
    with (folder / "vectors").open("wb") as file:
        np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="plain NumPy"):
        read_word_vectors(folder)


def array(shape, data=b"\0" * 48):
    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"PK\x03\x04rest",  # as of numpy.savez
        array((3, 4))[:-1],
        array((10**12, 300)),  # more than any memory
        array((-1, 4)),
        array((12,)),
        array((3, 0)),
        array((3, 4), np.full(12, np.nan, "<f4").tobytes()),
    ],
)
def test_damaged_vectors_of_spacy_are_refused_by_name(content, tmp_path):
    folder = spacy_folder(tmp_path / "vocab")
    (folder / "vectors").write_bytes(content)
    with pytest.raises(DataError, match="vocab"):
        read_word_vectors(folder)


def test_words_that_do_not_fit_their_vectors_are_refused(tmp_path):
    write_word_vectors(tmp_path, WORDS, VECTORS)
    (tmp_path / "words.txt").write_text("hammer\ntea\n")
    with pytest.raises(DataError, match="do not fit"):
        read_word_vectors(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="neither"):
        read_word_vectors(tmp_path / "empty")
