# SPDX-License-Identifier: Apache-2.0
import os

import pytest

from newfound_core.atomic_file import write_bytes


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    write_bytes(tmp_path / "new" / "a", b"1")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(tmp_path / "new" / "a", b"2")
    assert (tmp_path / "new" / "a").read_bytes() == b"1"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a"]
