# SPDX-License-Identifier: Apache-2.0
from newfound_console.pictures import Pictures

JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"


def test_a_picture_is_found_by_its_address():
    pictures = Pictures()
    address = pictures.add(JPEG + b"1")
    assert pictures.get(address.removeprefix("/pictures/")) == (JPEG + b"1", "image/jpeg")
    assert pictures.get(pictures.add(PNG).removeprefix("/pictures/"))[1] == "image/png"


def test_what_is_no_picture_is_not_served():
    pictures = Pictures()
    assert pictures.add(b"<html>") == ""
    assert pictures.get("../../etc/passwd") is None


def test_no_more_is_kept_than_the_limit_and_the_oldest_goes_first():
    pictures = Pictures(max_bytes=10_000)
    addresses = [pictures.add(JPEG + bytes([n % 256, n // 256]) + bytes(95)) for n in range(1000)]
    assert pictures.size <= 10_000
    assert pictures.get(addresses[0].removeprefix("/pictures/")) is None
    assert pictures.get(addresses[-1].removeprefix("/pictures/")) is not None
    assert pictures.add(JPEG + bytes([999 % 256, 999 // 256]) + bytes(95)) == addresses[-1]
