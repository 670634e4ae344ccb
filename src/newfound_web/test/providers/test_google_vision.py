# SPDX-License-Identifier: Apache-2.0
"""Cloud Vision's wire format, as documented at cloud.google.com/vision/docs/detecting-web."""

import base64
import io
import json

import pytest
from PIL import Image

from newfound_web.errors import ProviderError
from newfound_web.providers.base import Key
from newfound_web.providers.google_vision import GoogleVision

SECRET = "AIzaSy-not-to-be-seen"
PATH = "/v1/images:annotate"
ANSWER = {
    "responses": [
        {
            "webDetection": {
                "webEntities": [
                    {"entityId": "/m/01x3gd", "score": 1.3, "description": "Teapot"},
                    {"entityId": "/m/0h8mzrc", "score": 0.65, "description": "Kettle"},
                    {"entityId": "/t/2dvz"},
                ],
                "fullMatchingImages": [{"url": "https://a.example/teapot.jpg"}],
                "bestGuessLabels": [{"label": "brown betty teapot", "languageCode": "en"}],
            }
        }
    ]
}


@pytest.fixture
def ask(local_web, fetched, cache, picture_of):
    def run(count=5):
        url = local_web.url(PATH)
        return fetched(
            lambda f: GoogleVision(f, cache, Key("K", SECRET), url, 6000).candidates(
                picture_of(1), count
            )
        )

    return run


def test_the_best_guess_comes_first_then_entities_by_their_score(local_web, ask):
    local_web.serve_json(PATH, ANSWER)
    found = ask()
    labels = [(c.label, round(c.confidence, 2)) for c in found]
    assert labels == [("brown betty teapot", 1.0), ("Teapot", 1.0), ("Kettle", 0.5)]
    assert {c.provider for c in found} == {"google_vision"}


def test_the_request_is_as_documented_and_the_key_is_in_a_header_only(local_web, ask):
    local_web.serve_json(PATH, ANSWER)
    ask()
    (asked,) = local_web.asked
    assert asked.method == "POST"
    assert asked.query == {}
    assert asked.headers["x-goog-api-key"] == SECRET
    assert SECRET.encode() not in asked.body
    (request,) = json.loads(asked.body)["requests"]
    assert request["features"] == [{"type": "WEB_DETECTION", "maxResults": 10}]
    sent = Image.open(io.BytesIO(base64.b64decode(request["image"]["content"])))
    assert (sent.format, sent.size) == ("JPEG", (96, 80))


def test_the_same_crop_is_not_sent_twice(local_web, ask):
    local_web.serve_json(PATH, ANSWER)
    assert ask() == ask()
    assert len(local_web.asked) == 1


def test_nothing_found_is_an_answer(local_web, ask):
    local_web.serve_json(PATH, {"responses": [{}]})
    assert ask() == []


def test_a_refused_key_is_told_without_the_key(local_web, ask):
    text = f"API key not valid: {SECRET}. Please pass a valid API key."
    error = {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}
    local_web.serve_json(PATH, error, 400)
    with pytest.raises(ProviderError, match=r"status 400: API key not valid: \[key\]") as caught:
        ask()
    assert SECRET not in str(caught.value)


def test_an_error_about_the_image_is_told_and_not_cached(local_web, ask, cache):
    error = {"code": 3, "message": f"Bad image data. {SECRET}"}
    local_web.serve_json(PATH, {"responses": [{"error": error}]})
    for _ in range(2):
        with pytest.raises(ProviderError, match="Bad image data") as caught:
            ask()
        assert SECRET not in str(caught.value)
    assert len(local_web.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [[], {}, None, 7, {"responses": []}, {"responses": [[]]}, {"responses": [{"webDetection": 1}]},
     {"responses": [{"webDetection": {"webEntities": [{"score": "high"}]}}]}],
)  # fmt: skip
def test_any_other_form_is_an_error_of_the_provider(local_web, ask, answer):
    local_web.serve_json(PATH, answer)
    with pytest.raises(ProviderError, match="does not document"):
        ask()
