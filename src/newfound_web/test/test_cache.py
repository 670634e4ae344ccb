# SPDX-License-Identifier: Apache-2.0
import os
import time

from newfound_web.cache import DiskCache


def entries(folder):
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_what_was_put_is_found_again_by_another_process(tmp_path):
    DiskCache(tmp_path, 1000, 100.0).put("kind", "../key?", b"content")
    again = DiskCache(tmp_path, 1000, 100.0)
    assert again.get("kind", "../key?") == b"content"
    assert again.get("other kind", "../key?") is None
    assert [f.parent for f in entries(tmp_path)] == [tmp_path]


def test_an_old_entry_is_no_longer_given(tmp_path):
    cache = DiskCache(tmp_path, 1000, max_age=100.0)
    cache.put("kind", "key", b"content")
    long_ago = time.time() - 200
    os.utime(entries(tmp_path)[0], (long_ago, long_ago))
    assert cache.get("kind", "key") is None


def test_a_damaged_entry_is_a_miss(tmp_path):
    cache = DiskCache(tmp_path, 1000, 100.0)
    cache.put("kind", "key", b"content")
    file = entries(tmp_path)[0]
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole + b"x", whole[:10], b"", whole[:-1] + b"T"):
        file.write_bytes(damaged)
        assert cache.get("kind", "key") is None


def test_the_oldest_entries_go_when_the_limit_is_reached(tmp_path):
    cache = DiskCache(tmp_path, max_bytes=300, max_age=1e9)
    for number in range(5):
        cache.put("kind", str(number), bytes(68))  # 100 with the checksum
        age = time.time() - 100 + number
        for file in entries(tmp_path):
            if time.time() - file.stat().st_mtime < 50:
                os.utime(file, (age, age))
    kept = [n for n in range(5) if cache.get("kind", str(n)) is not None]
    assert kept == [2, 3, 4]


def test_without_room_nothing_is_kept(tmp_path):
    DiskCache(tmp_path / "never", 0, 100.0).put("kind", "key", b"content")
    assert entries(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_counted_and_harmless(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file", 1000, 100.0)
    cache.put("kind", "key", b"content")
    assert cache.get("kind", "key") is None
    assert cache.failures == 1
