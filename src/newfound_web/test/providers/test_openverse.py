# SPDX-License-Identifier: Apache-2.0
"""Openverse's wire format, as its API documents it in its examples."""

import asyncio
import json
from urllib.parse import parse_qs

import pytest

from newfound_web.errors import ProviderError
from newfound_web.providers.base import Key
from newfound_web.providers.openverse import Openverse, licence

SEARCH, TOKEN = "/v1/images/", "/v1/auth_tokens/token/"


def result(number, **changes):
    return {
        "id": f"4bc43a04-ef46-4544-a0c1-{number:012}",
        "title": "Teapot",
        "foreign_landing_url": f"https://photos.example/{number}",
        "url": f"https://cdn.photos.example/{number}.jpg",
        "creator": "Tim Sullivan",
        "creator_url": "https://www.tim.example",
        "license": "by-sa",
        "license_version": "2.0",
        "license_url": "https://creativecommons.org/licenses/by-sa/2.0/",
        "provider": "stocksnap",
        "source": "stocksnap",
        "category": "photograph",
        "filesize": 896128,
        "filetype": "jpg",
        "tags": [{"accuracy": None, "name": "tea", "unstable__provider": "stocksnap"}],
        "attribution": '"Teapot" by Tim Sullivan is licensed under CC BY-SA 2.0.',
        "fields_matched": ["title"],
        "mature": False,
        "height": 800,
        "width": 600,
        "thumbnail": f"https://api.openverse.example/v1/images/{number}/thumb/",
        **changes,
    }


def page(number, results, pages=1):
    return {
        "result_count": 999, "page_count": pages, "page_size": 20, "page": number,
        "results": results,
    }  # fmt: skip


@pytest.fixture
def search(local_web, fetched, cache):
    def run(label="tea pot", count=5, **options):
        return fetched(
            lambda f: Openverse(
                f, cache, url=local_web.url(), per_minute=60_000, **options
            ).offers(label, count)
        )

    return run


def test_results_become_offers_with_their_licence(local_web, search):
    local_web.serve_json(SEARCH, page(1, [result(1), result(2)]))
    first, second = search()
    assert second.origin.source == "https://cdn.photos.example/2.jpg"
    assert first.origin.page == "https://photos.example/1"
    assert first.origin.licence == "CC BY-SA 2.0"
    assert first.origin.attribution.startswith('"Teapot" by Tim Sullivan')
    (asked,) = local_web.asked
    assert asked.query == {"q": "tea pot", "page_size": "20", "page": "1", "mature": "false"}
    assert "authorization" not in asked.headers


def test_an_original_that_is_too_large_is_replaced_by_the_small_copy(local_web, search):
    local_web.serve_json(SEARCH, page(1, [result(1, width=9000, height=9000)]))
    (offer,) = search()
    assert offer.origin.source.endswith("/thumb/")


def test_further_pages_are_asked_for_while_there_are_any(local_web, search, response_head):
    async def paged(asked, writer):
        number = int(asked.query["page"])
        body = json.dumps(page(number, [result(20 * number + i) for i in range(20)], pages=2))
        writer.write(response_head(200, Content_Length=str(len(body))) + body.encode())

    local_web.handle(SEARCH, paged)
    assert len(search(count=30)) == 30
    assert len(search(count=300)) == 40
    assert [a.query["page"] for a in local_web.asked] == ["1", "2"]  # the rest was cached


def test_when_a_later_page_fails_the_earlier_ones_are_used(local_web, search, response_head):
    async def first_only(asked, writer):
        if asked.query["page"] == "1":
            body = json.dumps(page(1, [result(i) for i in range(20)], pages=3)).encode()
            writer.write(response_head(200, Content_Length=str(len(body))) + body)
        else:
            writer.write(response_head(403, Content_Length="0"))

    local_web.handle(SEARCH, first_only)
    assert len(search(count=60)) == 20


def test_a_token_is_asked_for_once_and_sent_along(local_web, fetched, cache):
    local_web.serve_json(
        TOKEN,
        {"access_token": "tkn", "scope": "read", "expires_in": 36000, "token_type": "Bearer"},
    )
    local_web.serve_json(SEARCH, page(1, []))
    credentials = Key("ID", "my-id"), Key("SECRET", "my-secret")

    async def twice(fetcher):
        provider = Openverse(fetcher, cache, credentials, url=local_web.url(), per_minute=60_000)
        return [await provider.offers(label, 5) for label in ("a", "b")]

    assert fetched(twice) == [[], []]
    token, *searches = local_web.asked
    assert parse_qs(token.body.decode()) == {
        "grant_type": ["client_credentials"], "client_id": ["my-id"],
        "client_secret": ["my-secret"],
    }  # fmt: skip
    assert [s.headers["authorization"] for s in searches] == ["Bearer tkn"] * 2
    assert all("secret" not in str(s.query) for s in searches)


def test_a_result_without_an_address_is_left_out(local_web, search):
    odd = [result(1, url=None), result(2), result(3, url=7, license=None, attribution=None)]
    local_web.serve_json(SEARCH, page(1, odd))
    assert [o.origin.source for o in search()] == ["https://cdn.photos.example/2.jpg"]


@pytest.mark.parametrize("answer", [[], {"results": []}, {"results": 3, "page_count": 1}, "x"])
def test_any_other_form_is_an_error_of_the_provider(local_web, search, answer):
    local_web.serve_json(SEARCH, answer)
    with pytest.raises(ProviderError, match="does not document"):
        search()


def test_an_offer_is_loaded_from_its_address(local_web, fetched, cache, photo):
    url = local_web.serve("/1.jpg", photo(1))
    local_web.serve_json(SEARCH, page(1, [result(1, url=url)]))

    async def load(fetcher):
        provider = Openverse(fetcher, cache, url=local_web.url(), per_minute=60_000)
        return await asyncio.gather(*(o.load() for o in await provider.offers("a", 5)))

    assert fetched(load) == [photo(1)]


def test_licences_are_written_as_people_do():
    assert licence("by-nc", "4.0") == "CC BY-NC 4.0"
    assert licence("cc0", "1.0") == "CC0 1.0"
    assert licence("pdm", None) == "PDM"
    assert licence(None, "1.0") == ""
