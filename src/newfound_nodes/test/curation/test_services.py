# SPDX-License-Identifier: Apache-2.0
"""Only what web_query has stored is read, whatever a message says."""

import hashlib

import pytest

from newfound_nodes.curation import services as fetched_images
from newfound_nodes.curation.services import read_images

COLLECTION = "teapot-1f0c9a3b-0001"


@pytest.fixture
def stored(tmp_path):
    """Writes an image below the root of a folder and returns its name."""
    (tmp_path / "root" / COLLECTION).mkdir(parents=True)

    def store(content, collection=COLLECTION):
        name = f"{hashlib.sha256(content).hexdigest()}.jpg"
        (tmp_path / "root" / collection / name).write_bytes(content)
        return name

    return store


def test_images_are_read_in_their_order(tmp_path, stored):
    names = [stored(content) for content in (b"two", b"one")]
    assert read_images(tmp_path / "root", COLLECTION, names) == [b"two", b"one"]


def test_names_that_are_none_are_not_opened(tmp_path, stored):
    name = stored(b"one")
    (tmp_path / name).write_bytes(b"one")
    for collection in ("..", "", "../root/" + COLLECTION, COLLECTION + "/"):
        assert read_images(tmp_path / "root", collection, [name]) == []
    for file in (f"../{name}", f"../../{name}", "/etc/passwd", "collection.json", ""):
        assert read_images(tmp_path / "root", COLLECTION, [file]) == []


def test_links_out_of_the_folder_and_changed_files_are_left_out(tmp_path, stored):
    outside, changed, good = stored(b"out"), stored(b"changed"), stored(b"good")
    folder = tmp_path / "root" / COLLECTION
    (folder / outside).rename(tmp_path / outside)
    (folder / outside).symlink_to(tmp_path / outside)
    (folder / changed).write_bytes(b"something else")
    assert read_images(tmp_path / "root", COLLECTION, [outside, changed, good]) == [b"good"]


def test_no_more_is_read_than_the_detector_takes(tmp_path, stored, monkeypatch):
    monkeypatch.setattr(fetched_images, "MOST_BYTES", 7)
    names = [stored(content) for content in (b"one", b"two", b"six")]
    assert read_images(tmp_path / "root", COLLECTION, names) == [b"one", b"two"]
