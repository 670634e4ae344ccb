# SPDX-License-Identifier: Apache-2.0
import json
import os
from contextlib import contextmanager

import cv2
import numpy as np
import pytest

from newfound_core.errors import CheckpointError, DataError
from newfound_core.open_world import memory_store
from newfound_core.open_world.memory import Memory, MemoryConfig, Sample
from newfound_core.open_world.memory_store import load_memory, save_memory


def image(seed):
    return np.random.default_rng(seed).integers(0, 256, (6, 5, 3), dtype=np.uint8)


@pytest.fixture
def memory():
    jpeg = cv2.imencode(".jpg", image(9))[1].tobytes()
    return Memory(
        MemoryConfig(10, 0.25),
        {
            "cup": [Sample(image(0), "cup", "camera"), Sample(image(1), "cup", "web", True)],
            "tasse à café": [Sample(jpeg, "tasse à café")],
        },
    )


@pytest.fixture
def folder(memory, tmp_path):
    save_memory(memory, tmp_path / "memory")
    return tmp_path / "memory"


def edit_index(folder, change):
    path = folder / "index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))


def test_what_is_loaded_is_what_was_saved(memory, folder):
    loaded = load_memory(folder)
    assert loaded.config == memory.config
    assert loaded.labels == memory.labels
    for label in memory.labels:
        pairs = zip(loaded.samples(label), memory.samples(label), strict=True)
        for found, expected in pairs:
            np.testing.assert_array_equal(found.pixels(), expected.pixels())
            assert (found.source, found.held_out) == (expected.source, expected.held_out)


def test_saving_again_removes_images_no_longer_named(memory, folder):
    save_memory(memory.without("cup"), folder)
    assert len(list((folder / "images").iterdir())) == 1
    assert load_memory(folder).labels == ["tasse à café"]


def test_a_crash_before_the_index_is_written_leaves_the_old_memory(folder, monkeypatch):
    def crash(path, values):
        raise KeyboardInterrupt

    monkeypatch.setattr(memory_store, "write_json", crash)
    other = Memory(samples={"fork": [Sample(image(5), "fork")]})
    with pytest.raises(KeyboardInterrupt):
        save_memory(other, folder)
    assert load_memory(folder).labels == ["cup", "tasse à café"]


def test_a_truncated_image_is_named(folder):
    path = next((folder / "images").glob("*.png"))
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match=f"{path.name} is damaged"):
        load_memory(folder)


def test_a_missing_image_is_named(folder):
    path = next((folder / "images").glob("*.jpg"))
    path.unlink()
    with pytest.raises(CheckpointError, match=f"{path.name} is named in the index"):
        load_memory(folder)


@contextmanager
def as_nobody():
    """Root may read everything: for a moment we are not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("name", ["index.json", "images/*.png"])
def test_a_file_that_may_not_be_read_is_named(folder, name, monkeypatch):
    monkeypatch.chdir(folder.parent)  # the folders above are closed to others
    folder.parent.chmod(0o755)
    path = next(folder.glob(name))
    path.chmod(0)
    with as_nobody(), pytest.raises(CheckpointError, match=path.name):
        load_memory(folder.relative_to(folder.parent))


def test_an_index_that_is_a_folder_is_a_clear_error(folder):
    (folder / "index.json").unlink()
    (folder / "index.json").mkdir()
    with pytest.raises(CheckpointError, match=r"index\.json is damaged"):
        load_memory(folder)


@pytest.mark.parametrize("name", ["../../secret.png", "/etc/passwd", "a.png", 7, "x/../y.jpg"])
def test_an_index_cannot_name_a_file_elsewhere(folder, name):
    edit_index(folder, lambda index: index["classes"]["cup"][0].update(file=name))
    with pytest.raises(CheckpointError, match="which is no image of a memory"):
        load_memory(folder)


def test_a_link_to_elsewhere_is_not_followed(folder, tmp_path):
    path = next((folder / "images").glob("*.png"))
    path.rename(tmp_path / "elsewhere.png")
    path.symlink_to(tmp_path / "elsewhere.png")
    with pytest.raises(CheckpointError, match="not there as a file"):
        load_memory(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda i: i.update(format=2), "format 2, this version of newfound reads 1"),
        (lambda i: i.update(size=2), "3 samples do not fit a memory of 2"),
        (lambda i: i.pop("classes"), "not an index of a memory"),
        (lambda i: i.update(classes=[]), "not an index of a memory"),
        (lambda i: i["classes"]["cup"][0].pop("source"), "strange entry"),
        (lambda i: i["classes"]["cup"][0].update(extra=1), "strange entry"),
        (lambda i: i["classes"]["cup"][0].update(held_out="no"), "strange entry"),
        (lambda i: i.update(held_out_share="much"), "not an index of a memory"),
        (lambda i: i.update(held_out_share=2), "held_out_share"),
    ],
)
def test_a_wrong_index_is_a_clear_error(folder, change, words):
    edit_index(folder, change)
    with pytest.raises(CheckpointError, match=words):
        load_memory(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_an_index_that_is_none_is_a_clear_error(folder, content):
    (folder / "index.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"index\.json"):
        load_memory(folder)


def test_a_missing_folder_is_a_clear_error(tmp_path):
    with pytest.raises(CheckpointError, match="is missing"):
        load_memory(tmp_path / "nothing")


@pytest.mark.parametrize("content", [b"GIF89a", np.zeros((2, 2), np.uint8), np.zeros((2, 2, 3))])
def test_what_is_no_image_is_not_saved(tmp_path, content):
    with pytest.raises(DataError, match="class 'cup'"):
        save_memory(Memory(samples={"cup": [Sample(content, "cup")]}), tmp_path)
