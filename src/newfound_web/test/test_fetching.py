# SPDX-License-Identifier: Apache-2.0
"""The client against a server that does everything wrong."""

import asyncio
import gzip
import socket
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from newfound_web import fetching
from newfound_web.errors import ProviderError, RateLimitError, RefusedError, TransientError
from newfound_web.fetching import (
    RateLimiter,
    RetryPolicy,
    StatusError,
    host_of,
    retry_after,
    safe_url,
)


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
    with pytest.raises(TransientError, match="no complete answer"):
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
    with pytest.raises(TransientError, match="no complete answer from 127"):
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
    with pytest.raises(TransientError):
        fetched(lambda f: f.image(url))


def test_a_busy_server_is_asked_again(local_web, fetched, photo):
    busy = (b"", 503, {}), (b"", 429, {"Retry-After": "0"}), (photo(1), 200, {})
    url = local_web.serve_in_turn("/busy", *busy)
    assert fetched(lambda f: f.image(url)) == photo(1)
    assert len(local_web.asked) == 3


def test_a_server_that_stays_broken_is_given_up(local_web, fetched):
    url = local_web.serve("/broken", b"", 500)
    with pytest.raises(TransientError, match="status 500"):
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


def test_a_refused_connection_is_transient(fetched):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # taken, and not listened on: connections are refused
        host = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(TransientError):
            fetched(lambda f: f.image(f"http://{host}/x"), private_hosts=(host,))


def test_what_is_said_of_an_address_is_its_host_alone():
    assert host_of("https://a.example/secret?key=abc") == "a.example"
    assert host_of("::") == "a server"


def test_an_address_in_other_letters_is_understood():
    assert safe_url("https://bücher.example/ä?q=ö").raw_host == b"xn--bcher-kva.example"


@pytest.fixture
def slept(monkeypatch):
    """How long was slept, without sleeping."""
    times = []

    async def sleep(seconds):
        times.append(seconds)

    monkeypatch.setattr(fetching.asyncio, "sleep", sleep)
    return times


def turns(limits, *services, per_minute=60):
    async def take():
        for service in services:
            await limits.wait(service, per_minute)

    asyncio.run(take())


def test_requests_to_one_service_are_spaced_and_others_do_not_wait(slept):
    turns(RateLimiter(10.0, 1, clock=lambda: 5.0), "a", "a", "b", "a")
    assert slept == [0.0, 1.0, 0.0, 2.0]


def test_a_wait_longer_than_the_limit_is_an_error(slept):
    limits = RateLimiter(1.5, 1, clock=lambda: 0.0)
    turns(limits, "a", "a")
    with pytest.raises(RateLimitError, match="a may be asked again only in 2 s"):
        turns(limits, "a")


def test_a_refused_turn_does_not_push_the_queue_back(slept):
    now = [0.0]
    limits = RateLimiter(0.5, 1, clock=lambda: now[0])
    turns(limits, "a")
    for _ in range(5):
        with pytest.raises(RateLimitError):
            turns(limits, "a")
    now[0] = 1.0
    turns(limits, "a")
    assert slept[-1] == 0.0


def test_after_a_silence_some_requests_go_at_once_and_the_rate_is_kept(slept):
    now = [0.0]
    limits = RateLimiter(10.0, burst=3, clock=lambda: now[0])
    turns(limits, *"aaaaa")
    assert slept == [0.0, 0.0, 0.0, 1.0, 2.0]
    now[0] = 100.0
    turns(limits, *"aaaa")
    assert slept[5:] == [0.0, 0.0, 0.0, 1.0]


def test_a_pause_holds_for_its_service_only(slept):
    limits = RateLimiter(10.0, clock=lambda: 0.0)
    limits.pause("a", 60.0)
    turns(limits, "b")
    with pytest.raises(RateLimitError, match="60 s"):
        turns(limits, "a")


NOON = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def test_waits_double_and_stay_below_the_longest():
    policy = RetryPolicy(retries=5, first_wait=1.0, longest_wait=4.0)
    for attempt, most in enumerate([1, 2, 4, 4, 4], start=1):
        wait = policy.wait()(SimpleNamespace(attempt_number=attempt))
        assert most / 2 <= wait <= most


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120), ("1.5", 1.5), ("Fri, 01 May 2026 12:00:30 GMT", 30),
        ("Fri, 01 May 2026 11:00:00 GMT", 0), ("", 0), ("-5", 0), ("soon", 0),
        ("nan", 0), ("inf", 0), ("1e999", 0), ("Fri, 99 May", 0),
    ],
)  # fmt: skip
def test_retry_after_is_read_as_a_number_or_a_date(header, seconds):
    assert retry_after(header, NOON) == seconds
