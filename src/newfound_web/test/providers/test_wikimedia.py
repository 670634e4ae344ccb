# SPDX-License-Identifier: Apache-2.0
"""MediaWiki's wire format (formatversion 2), as Commons answers a search for files."""

import pytest

from newfound_web.errors import ProviderError
from newfound_web.providers.wikimedia import Wikimedia, plain_words

API = "/w/api.php"


def page(index, name, **changes):
    base = "https://upload.wikimedia.example/wikipedia/commons"
    info = {
        "size": 1353326,
        "width": 3746,
        "height": 2400,
        "thumburl": f"{base}/thumb/a/a2/{name}/960px-{name}",
        "thumbwidth": 960,
        "thumbheight": 615,
        "url": f"{base}/a/a2/{name}",
        "descriptionurl": f"https://commons.wikimedia.example/wiki/File:{name}",
        "mime": "image/jpeg",
        "extmetadata": {
            "LicenseShortName": {"value": "CC BY-SA 4.0", "source": "commons-desc-page"},
            "Artist": {"value": '<a href="//x.example" title="User:Ann">Ann</a>'},
        },
        **changes,
    }
    return {
        "pageid": 83547663 + index, "ns": 6, "title": f"File:{name}", "index": index,
        "imagerepository": "local", "imageinfo": [info],
    }  # fmt: skip


def found(*pages):
    return {"batchcomplete": True, "query": {"pages": list(pages)}}


@pytest.fixture
def search(local_web, fetched, cache):
    def run(label="teapot", count=5):
        url = local_web.url(API)
        return fetched(lambda f: Wikimedia(f, cache, url, 60_000).offers(label, count))

    return run


def test_results_come_in_the_order_of_the_search_with_their_licence(local_web, search):
    local_web.serve_json(API, found(page(2, "B.jpg"), page(1, "A.jpg")))
    first, second = search()
    assert first.origin.source.endswith("/a/a2/A.jpg")
    assert second.origin.page.endswith("File:B.jpg")
    assert first.origin.licence == "CC BY-SA 4.0"
    assert first.origin.attribution == "Ann"


def test_the_request_is_as_documented(local_web, search):
    local_web.serve_json(API, found())
    search('tea-pot: "brown"', 7)
    query = local_web.asked[0].query
    assert query["gsrsearch"] == "tea pot brown filetype:bitmap"
    assert (query["action"], query["generator"], query["prop"]) == ("query", "search", "imageinfo")
    assert (query["gsrnamespace"], query["gsrlimit"]) == ("6", "7")
    assert query["iiurlwidth"] == "960"


def test_the_copy_of_standard_width_is_loaded(local_web, fetched, cache, photo):
    thumb = local_web.serve("/thumb.jpg", photo(1))
    local_web.serve_json(API, found(page(1, "A.jpg", thumburl=thumb)))

    async def load(fetcher):
        offers = await Wikimedia(fetcher, cache, local_web.url(API), 60_000).offers("a", 5)
        return await offers[0].load()

    assert fetched(load) == photo(1)


def test_nothing_found_is_an_answer(local_web, search):
    local_web.serve_json(API, {"batchcomplete": True})
    assert search() == []


def test_a_page_without_a_file_is_left_out(local_web, search):
    bare = {"pageid": 1, "ns": 6, "title": "File:Gone.jpg", "index": 1}
    local_web.serve_json(API, found(bare, page(2, "A.jpg", extmetadata=None)))
    (offer,) = search()
    assert (offer.origin.licence, offer.origin.attribution) == ("", "")


def test_an_error_with_status_200_is_an_error(local_web, search):
    error = {"code": "ratelimited", "info": "You've exceeded your rate limit."}
    local_web.serve_json(API, {"error": error, "servedby": "mw1"})
    for _ in range(2):
        with pytest.raises(ProviderError, match="refuses the search: ratelimited"):
            search()
    assert len(local_web.asked) == 2  # not cached


@pytest.mark.parametrize("answer", [[], 3, {"query": 1}, {"query": {"pages": {"1": {}}}}])
def test_any_other_form_is_an_error_of_the_provider(local_web, search, answer):
    local_web.serve_json(API, answer)
    with pytest.raises(ProviderError, match="does not document"):
        search()


def test_commands_of_the_search_are_taken_out_of_a_label():
    assert plain_words('-mug "x" insource:/a/ 湯呑み') == "mug x insource a 湯呑み"
