# SPDX-License-Identifier: Apache-2.0
"""The client against a server that does everything wrong."""

import asyncio
import gzip

import pytest

from newfound_web.errors import PassingError, ProviderError, RateLimitError, RefusedError
from newfound_web.fetching import StatusError, safe_url, where


def test_an_image_arrives_byte_for_byte_and_the_server_learns_who_asks(local_web, fetched, photo):
    url = local_web.serve("/a.jpg", photo(1))
    assert fetched(lambda f: f.image(url), user_agent="newfound/0.1 (me@home)") == photo(1)
    headers = local_web.asked[0].headers
    assert headers["user-agent"] == "newfound/0.1 (me@home)"
    assert headers["accept-encoding"] == "identity"
    assert headers["host"] == local_web.host


def test_a_redirect_within_reach_is_followed(local_web, fetched, photo):
    local_web.serve("/real.jpg", photo(1))
    url = local_web.serve("/moved", b"", 302, Location="/real.jpg")
    assert fetched(lambda f: f.image(url)) == photo(1)


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:1/secret", "http://localhost/", "http://[::1]/", "http://0/",
        "http://169.254.169.254/latest/meta-data/", "http://[::ffff:169.254.169.254]/",
        "http://192.168.0.1/", "//10.0.0.1/x", "file:///etc/passwd", "ftp://a.example/x",
        "gopher://127.0.0.1/", "data:image/png;base64,AAAA", "http://u:p@a.example/",
        "javascript:alert(1)", "http://a.example:99999/", "\x00",
    ],
)  # fmt: skip
def test_a_redirect_to_the_inside_or_to_another_scheme_is_refused(local_web, fetched, target):
    url = local_web.serve("/trap", b"", 302, Location=target)
    with pytest.raises(ProviderError) as caught:
        fetched(lambda f: f.image(url))
    # h11 itself stops what is no legal header; all others are judged by us, and not retried.
    assert isinstance(caught.value, RefusedError) or target == "\x00"
    assert set(local_web.paths()) == {"/trap"}


def test_an_endless_redirect_is_refused(local_web, fetched):
    url = local_web.serve("/round", b"", 301, Location="/round")
    with pytest.raises(RefusedError, match="redirects"):
        fetched(lambda f: f.image(url))
    assert len(local_web.asked) == 5


def test_a_service_that_redirects_does_not_get_the_key_sent_elsewhere(local_web, fetched):
    local_web.serve_json("/elsewhere", {})
    url = local_web.serve("/api", b"", 307, Location="/elsewhere")
    with pytest.raises(RefusedError):
        fetched(lambda f: f.json(url, service="s", per_minute=6000, headers={"X-Key": "k"}))
    assert local_web.paths() == ["/api"]


def test_a_body_announced_too_large_is_not_read(local_web, fetched, response_head):
    async def announce(asked, writer):
        writer.write(response_head(200, Content_Length="999999999999"))
        await asyncio.sleep(60)

    url = local_web.handle("/big", announce)
    with pytest.raises(RefusedError, match="more than 1000 bytes"):
        fetched(lambda f: f.image(url), max_image_bytes=1000)


def test_an_endless_body_without_a_length_is_cut_off(local_web, fetched, response_head):
    async def pour(asked, writer):
        writer.write(response_head(200))
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    url = local_web.handle("/endless", pour)
    with pytest.raises(RefusedError, match="more than 50000 bytes"):
        fetched(lambda f: f.image(url), max_image_bytes=50_000)


def test_a_body_shorter_than_announced_is_no_answer(local_web, fetched, photo):
    url = local_web.serve("/short", photo(1)[:500], Content_Length="5000")
    with pytest.raises(PassingError, match="no whole answer"):
        fetched(lambda f: f.image(url))
    assert len(local_web.asked) == 3  # it was tried again


@pytest.mark.parametrize("before_head", [True, False])
def test_a_server_that_drips_is_left(local_web, fetched, response_head, before_head):
    async def drip(asked, writer):
        if not before_head:
            writer.write(response_head(200, Content_Length="5000"))
        for letter in "HTTP/1.1 200 OK" * 300:
            writer.write(letter.encode())
            await writer.drain()
            await asyncio.sleep(0.05)

    url = local_web.handle("/slow", drip)
    with pytest.raises(PassingError, match="no whole answer from 127"):
        fetched(lambda f: f.image(url), request_seconds=0.2)


def test_compressed_content_is_refused(local_web, fetched):
    bomb = gzip.compress(bytes(10_000_000))
    url = local_web.serve("/bomb", bomb, Content_Encoding="gzip")
    with pytest.raises(RefusedError, match="compressed"):
        fetched(lambda f: f.image(url))


def test_garbage_instead_of_http_is_no_answer(local_web, fetched):
    async def babble(asked, writer):
        writer.write(b"\x00\xff SSH-2.0 hello\r\n\r\n" * 10)

    url = local_web.handle("/garbage", babble)
    with pytest.raises(PassingError):
        fetched(lambda f: f.image(url))


def test_a_busy_server_is_asked_again(local_web, fetched, photo):
    busy = (b"", 503, {}), (b"", 429, {"Retry-After": "0"}), (photo(1), 200, {})
    url = local_web.serve_in_turn("/busy", *busy)
    assert fetched(lambda f: f.image(url)) == photo(1)
    assert len(local_web.asked) == 3


def test_a_server_that_stays_broken_is_given_up(local_web, fetched):
    url = local_web.serve("/broken", b"", 500)
    with pytest.raises(PassingError, match="status 500"):
        fetched(lambda f: f.image(url))
    assert len(local_web.asked) == 3


def test_a_server_that_wants_a_long_pause_gets_it(local_web, fetched):
    url = local_web.serve("/later", b"", 429, Retry_After="3600")

    async def twice(fetcher):
        for _ in range(2):
            with pytest.raises(RateLimitError, match=r"3600|3599"):
                await fetcher.image(url)

    fetched(twice)
    assert len(local_web.asked) == 1  # not even asked the second time


def test_a_missing_page_is_not_asked_for_again(local_web, fetched):
    with pytest.raises(StatusError, match="status 404"):
        fetched(lambda f: f.image(local_web.url("/nothing")))
    assert len(local_web.asked) == 1


def test_a_page_instead_of_json_is_an_error_of_the_provider(local_web, fetched):
    url = local_web.serve("/api", b"<html>hello</html>")
    with pytest.raises(ProviderError, match="did not answer with JSON"):
        fetched(lambda f: f.json(url, service="s", per_minute=6000))


def test_json_nested_beyond_reason_is_an_error_of_the_provider(local_web, fetched):
    url = local_web.serve("/api", b"[" * 1_000_000)
    with pytest.raises(ProviderError, match="did not answer with JSON"):
        fetched(lambda f: f.json(url, service="s", per_minute=6000))


def test_nobody_at_home_is_a_passing_failure(fetched, local_web):
    with pytest.raises(PassingError):
        fetched(lambda f: f.image("http://127.0.0.1:9/x"), private_hosts=("127.0.0.1:9",))


def test_what_is_said_of_an_address_is_its_host_alone():
    assert where("https://a.example/secret?key=abc") == "a.example"
    assert where("::") == "a server"


def test_an_address_in_other_letters_is_understood():
    assert safe_url("https://bücher.example/ä?q=ö").raw_host == b"xn--bcher-kva.example"
