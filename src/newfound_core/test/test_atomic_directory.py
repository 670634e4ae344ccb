# SPDX-License-Identifier: Apache-2.0
import ctypes

import pytest
from newfound_core.atomic_directory import atomic_directory


def write(folder, text):
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text(text)


def test_nothing_is_seen_before_the_block_ends(tmp_path):
    target = tmp_path / "target"
    with atomic_directory(target) as aside:
        write(aside, "new")
        assert not target.exists()
        assert aside.parent == target.parent
    assert (target / "sub" / "file").read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_in_the_block_leaves_nothing(tmp_path):
    def interrupted():
        with atomic_directory(tmp_path / "target") as aside:
            write(aside, "half")
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "filled directory", "broken link"])
def test_what_exists_is_not_overwritten(tmp_path, kind):
    target = tmp_path / "target"
    if kind == "file":
        target.write_text("old")
    elif kind == "broken link":
        target.symlink_to("nowhere")
    else:
        target.mkdir()
        (target / "file").write_text("old")
    with pytest.raises(FileExistsError), atomic_directory(target) as aside:
        write(aside, "new")
    assert list(tmp_path.iterdir()) == [target]


def test_replacing_exchanges_the_two_in_one_step(tmp_path):
    target = tmp_path / "target"
    for text in ("old", "new"):
        with atomic_directory(target, replace=True) as aside:
            write(aside, text)
    assert (target / "sub" / "file").read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_where_the_kernel_cannot_exchange_the_old_one_stays(tmp_path, monkeypatch):
    class Libc:
        def renameat2(self, *_):
            ctypes.set_errno(22)
            return -1

    target = tmp_path / "target"
    with atomic_directory(target) as aside:
        write(aside, "old")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Libc())
    with (
        pytest.raises(OSError, match="cannot exchange"),
        atomic_directory(target, replace=True) as aside,
    ):
        write(aside, "new")
    assert (target / "sub" / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
