# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_sim.__main__ import main
from newfound_sim.errors import DatasetError
from newfound_sim.rooms.dataset import DOMAINS, RoomRequest, find_rooms, generate_rooms

REQUEST = RoomRequest(
    ("loft_night",), ("office", "corridor"), images=2, views=2, size=16, samples=1
)


def test_a_run_writes_the_tree_and_a_second_run_only_what_is_missing(tmp_path):
    assert generate_rooms(tmp_path, REQUEST, workers=1) == 4
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.jpg"))
    assert files == [
        f"loft_night/{category}/0000{n}.jpg" for category in ("corridor", "office") for n in (0, 1)
    ]
    lost = tmp_path / "loft_night/office/00001.jpg"
    content = lost.read_bytes()
    lost.unlink()
    assert generate_rooms(tmp_path, REQUEST, workers=1) == 1
    assert lost.read_bytes() == content


def test_a_folder_made_with_other_settings_is_refused(tmp_path):
    one = RoomRequest(("loft_night",), ("office",), images=1, size=16, samples=1)
    generate_rooms(tmp_path, one, workers=1)
    other = RoomRequest(("loft_night",), ("office",), images=1, size=20, samples=1)
    with pytest.raises(DatasetError, match="size is 16, asked for 20"):
        generate_rooms(tmp_path, other, workers=1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"domains": ("loft_dusk",)}, "unknown domain 'loft_dusk'"),
        ({"classes": ("cellar",)}, "unknown category 'cellar'"),
        ({"images": 0}, "images must be at least 1"),
        ({"size": 4}, "size must be at least 16"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(change, told):
    asked = {"domains": ("loft_night",), "classes": ("office",), "images": 1} | change
    with pytest.raises(DatasetError, match=told):
        RoomRequest(**asked)


def test_a_building_names_all_its_domains():
    known = tuple(DOMAINS)
    assert find_rooms(["all"], known, "domain") == known
    assert find_rooms(["loft"], known, "domain") == ("loft_cloudy", "loft_night", "loft_sunny")


def test_the_command_writes_pictures_and_a_contact_sheet(tmp_path):
    asked = ["--domains", "cottage_sunny", "--classes", "bathroom", "--images", "1"]
    small = ["--size", "24", "--samples", "1", "--workers", "1"]
    assert main(["generate", "rooms", "--out", str(tmp_path), *asked, *small]) == 0
    assert (tmp_path / "cottage_sunny/bathroom/00000.jpg").stat().st_size > 300
    assert (tmp_path / "contact_sheet.jpg").exists()


def test_the_command_ends_with_a_sentence_on_a_wrong_name(tmp_path, capsys):
    assert main(["generate", "rooms", "--out", str(tmp_path), "--domains", "castle"]) == 2
    assert "unknown domain 'castle'" in capsys.readouterr().err


def test_domains_are_the_product_of_buildings_and_lightings():
    assert len(DOMAINS) == 12
    assert np.unique([building for building, _ in DOMAINS.values()]).size == 4
