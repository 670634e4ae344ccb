# SPDX-License-Identifier: Apache-2.0

import os
import shutil

import pytest

from newfound_training.data.fingerprint import PIECE, PIECES, file_fingerprint

LARGE = 3 * PIECES * PIECE


@pytest.mark.parametrize("size", [0, 10, LARGE])
def test_a_copy_with_another_time_has_the_same_fingerprint(tmp_path, size):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(os.urandom(size))
    shutil.copyfile(first, second)
    os.utime(second, (0, 0))
    assert file_fingerprint(first) == file_fingerprint(second)


@pytest.mark.parametrize("place", [0, 5, LARGE // 2, LARGE - 1])
def test_a_change_that_keeps_size_and_name_is_another_fingerprint(tmp_path, place):
    content = bytearray(os.urandom(max(10, place + 1 if place < 10 else LARGE)))
    path = tmp_path / "a"
    found = []
    for time in (1, 2):
        content[place : place + 3 * PIECE] = os.urandom(len(content[place : place + 3 * PIECE]))
        path.write_bytes(content)
        os.utime(path, (time, time))
        found.append(file_fingerprint(path))
    assert found[0] != found[1]
