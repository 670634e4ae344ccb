# SPDX-License-Identifier: Apache-2.0
"""The node over real DDS, against a web that misbehaves."""

import asyncio
import gzip
import io
import json
import signal
import threading

import pytest
from PIL import Image
from sensor_msgs.msg import CompressedImage

from newfound_msgs.srv import FetchImages, QueryLabel
from newfound_runtime.testing import ACTIVE, UNCONFIGURED, eventually, values
from newfound_web.web_query import WebQuery
from tests import ROOT

KEY = "AIzaSy-leave-no-trace"
NODE = "/web_query"


class CheapSight(WebQuery):
    """The node with features that take no time, and names that can be a defect."""

    defect = False

    def load_network(self):
        return self

    def features(self, rgb):
        small = Image.fromarray(rgb).resize((4, 4), Image.Resampling.BOX)
        return [value - 128.0 for value in small.tobytes()]

    def names(self, rgb, count):
        if self.defect:
            raise RuntimeError("the network has a hole")
        return [("teapot", 0.8), ("vase", 0.1)][:count]


@pytest.fixture
def started(ros, local_web, tmp_path, monkeypatch):
    """A function that starts the node with the local server as the whole web."""
    monkeypatch.setenv("GOOGLE_VISION_API_KEY", KEY)

    def start(**changes):
        defaults = {
            "image_folder": str(tmp_path / "images"),
            "cache_folder": str(tmp_path / "cache"),
            "allowed_private_hosts": [local_web.host],
            "google_vision_url": local_web.url("/v1/images:annotate"),
            "openverse_url": local_web.url(),
            "wikimedia_url": local_web.url("/w/api.php"),
            "openverse_per_minute": 6000.0,
            "min_free_mb": 0,
            "retries": 1,
            "request_timeout": 2.0,
            "image_providers": ["openverse"],
        }
        return ros.started(CheapSight, **{**defaults, **changes})

    return start


@pytest.fixture
def query(ros, photo):
    def ask(crop=None, **fields):
        request = QueryLabel.Request(**fields)
        request.crop.data = photo(1) if crop is None else crop
        return ros.call(QueryLabel, f"{NODE}/query_label", request)

    return ask


@pytest.fixture
def fetch(ros):
    def ask(label="teapot", **fields):
        request = FetchImages.Request(label=label, **fields)
        return ros.call(FetchImages, f"{NODE}/fetch_images", request)

    return ask


def offer(local_web, *urls):
    """Let Openverse find these addresses."""
    results = [
        {"url": url, "foreign_landing_url": f"https://page.example/{n}", "license": "by",
         "license_version": "4.0", "attribution": f"picture {n} by Ann", "width": 96,
         "height": 80, "thumbnail": None}
        for n, url in enumerate(urls)
    ]  # fmt: skip
    local_web.serve_json("/v1/images/", {"page_count": 1, "results": results})


def files(folder):
    return [file for file in folder.rglob("*") if file.is_file()]


def test_candidates_come_from_the_providers_in_order(started, query, local_web):
    detection = {"bestGuessLabels": [{"label": "brown teapot"}]}
    local_web.serve_json("/v1/images:annotate", {"responses": [{"webDetection": detection}]})
    started(label_providers=["google_vision", "imagenet"])
    answer = query(max_candidates=2)
    assert answer.result == answer.RESULT_OK
    found = [(c.label, c.provider) for c in answer.candidates]
    assert found == [("brown teapot", "google_vision"), ("teapot", "imagenet")]


def test_images_are_stored_with_what_is_known_of_them(started, fetch, local_web, tmp_path, photo):
    offer(local_web, local_web.serve("/1.jpg", photo(1)), local_web.serve("/2.png", photo(2)))
    started()
    answer = fetch(max_images=5)
    assert answer.result == answer.RESULT_OK
    first, second = answer.images
    assert (first.provider, first.licence) == ("openverse", "CC BY 4.0")
    assert first.source == local_web.url("/1.jpg")
    assert second.attribution == "picture 1 by Ann"
    assert (first.width, first.height) == (96, 80)
    for image in answer.images:
        assert (tmp_path / "images" / answer.collection / image.file).is_file()


@pytest.fixture
def traps(local_web, photo, response_head):
    """Addresses of everything that must not be let in."""

    async def endless(asked, writer):
        writer.write(response_head(200, Content_Type="image/jpeg") + photo(50))
        while True:
            writer.write(bytes(10_000))
            await writer.drain()

    async def silent(asked, writer):
        await asyncio.sleep(3600)

    bomb, animation = io.BytesIO(), io.BytesIO()
    Image.new("1", (8_000, 8_000)).save(bomb, "PNG")
    frames = [Image.new("RGB", (64, 64), (v, 0, 0)) for v in (0, 200)]
    frames[0].save(animation, "WEBP", save_all=True, append_images=frames[1:])
    return [
        local_web.handle("/endless", endless),
        local_web.handle("/silent", silent),
        local_web.serve("/html", b"<html>free photos</html>", Content_Type="image/jpeg"),
        local_web.serve("/half", photo(51)[:700], Content_Type="image/jpeg"),
        local_web.serve("/short", photo(52)[:700], Content_Length="9000"),
        local_web.serve("/bomb", bomb.getvalue(), Content_Type="image/png"),
        local_web.serve("/gzip", gzip.compress(photo(53)), Content_Encoding="gzip"),
        local_web.serve("/animation", animation.getvalue()),
        local_web.serve("/busy", b"", 429, Retry_After="0"),
        local_web.serve("/broken", b"", 500),
        local_web.serve("/loop", b"", 302, Location="/loop"),
        local_web.serve("/loopback", b"", 302, Location="http://127.0.0.1:1/"),
        local_web.serve("/metadata", b"", 302, Location="http://169.254.169.254/latest/"),
        local_web.serve("/file", b"", 302, Location="file:///etc/passwd"),
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost/photo.jpg",
        "file:///etc/passwd",
        "../../../etc/passwd",
        "",
    ]


def test_of_a_hostile_web_only_the_good_images_are_stored(
    started, fetch, local_web, tmp_path, photo, traps
):
    good = [local_web.serve(f"/good{n}.jpg", photo(n)) for n in range(3)]
    twin = local_web.serve("/twin.jpg", photo(0, quality=50))
    offer(local_web, *traps[:10], *good, *traps[10:], twin)
    started(filter_outliers=False, provider_timeout=60.0, request_timeout=1.0)
    answer = fetch(max_images=30, timeout_seconds=60.0)
    assert answer.result == answer.RESULT_OK
    assert len(answer.images) == 3
    assert answer.rejected >= 13
    place = tmp_path / "images" / answer.collection
    assert {f.name for f in files(tmp_path / "images")} == {
        "collection.json", *(image.file for image in answer.images)
    }  # fmt: skip
    for image in answer.images:
        with Image.open(place / image.file) as opened:
            opened.load()
            assert opened.size == (96, 80)
    # The search's answer, three good images and the twin, which was whole.
    assert len(files(tmp_path / "cache")) == 5


def test_a_web_that_does_not_answer_costs_the_time_limit_and_no_more(
    ros, started, fetch, query, local_web
):
    async def silent(asked, writer):
        await asyncio.sleep(3600)

    local_web.handle("/v1/images/", silent)
    local_web.handle("/v1/images:annotate", silent)
    started(label_providers=["google_vision"], request_timeout=600.0, provider_timeout=600.0)
    answers = []
    asking = [
        threading.Thread(target=lambda: answers.append(fetch(timeout_seconds=2.5))),
        threading.Thread(target=lambda: answers.append(query(timeout_seconds=2.5))),
    ]
    for thread in asking:
        thread.start()
    eventually(lambda: len(local_web.asked) >= 2, "both are under way")
    for _ in range(3):
        assert ros.state(NODE) == ACTIVE  # the executor is free meanwhile
    for thread in asking:
        thread.join()
    assert {answer.result for answer in answers} == {FetchImages.Response.RESULT_TIMEOUT}


@pytest.mark.parametrize("status", [429, 500, 403])
def test_a_service_that_refuses_is_named_with_its_reason(started, fetch, local_web, status):
    local_web.serve("/v1/images/", b"no", status, Retry_After="0")
    local_web.serve("/w/api.php", b"no", status, Retry_After="0")
    started(image_providers=["openverse", "wikimedia"])
    answer = fetch()
    assert answer.result == answer.RESULT_PROVIDERS_FAILED
    assert f"openverse: 127.0.0.1 answered with status {status}" in answer.message
    assert f"wikimedia: 127.0.0.1 answered with status {status}" in answer.message


def test_the_key_is_sent_to_its_service_and_leaks_nowhere(
    ros, started, query, fetch, local_web, tmp_path, capfd
):
    told = {"error": {"code": 403, "message": f"The key {KEY} is blocked."}}
    local_web.serve_json("/v1/images:annotate", told, 403)
    newest = ros.diagnostics(NODE)
    started(label_providers=["google_vision"])
    answer, other = query(), fetch()
    assert answer.result == answer.RESULT_PROVIDERS_FAILED
    assert "The key [key] is blocked" in answer.message
    status = eventually(lambda: (s := newest()) and "PROVIDERS_FAILED" in s.message and s)
    seen = capfd.readouterr()
    texts = [answer.message, other.message, str(status), seen.out, seen.err]
    assert not [text for text in texts if KEY in text]
    assert not [f for f in files(tmp_path) if KEY.encode() in f.read_bytes()]
    first, *rest = local_web.asked
    assert first.headers["x-goog-api-key"] == KEY
    assert not [asked for asked in rest if KEY in str(asked)]


def test_what_a_request_gets_wrong_has_a_code(started, query, fetch, tmp_path):
    started()
    assert query(crop=b"nonsense").result == QueryLabel.Response.RESULT_BAD_IMAGES
    assert query(crop=b"").result == QueryLabel.Response.RESULT_BAD_IMAGES
    for label in ("", "x" * 101, "two\nlines"):
        assert fetch(label).result == FetchImages.Response.RESULT_INVALID_LABEL
    assert query(timeout_seconds=float("nan")).result == QueryLabel.Response.RESULT_OK
    assert query(timeout_seconds=-1.0).result == QueryLabel.Response.RESULT_OK


def test_a_label_is_never_a_path(started, fetch, local_web, tmp_path, photo):
    offer(local_web, local_web.serve("/1.jpg", photo(1)))
    started()
    answer = fetch("../../outside")
    assert answer.result == answer.RESULT_OK
    assert "/" not in answer.collection
    assert {f.parent.parent for f in files(tmp_path / "images")} == {tmp_path / "images"}


def test_a_full_disk_has_a_code(ros, started, fetch):
    started(min_free_mb=2**40)
    answer = fetch()
    assert answer.result == answer.RESULT_STORAGE
    assert "stay free" in answer.message


def test_a_node_that_is_not_active_says_so(ros, started, query, fetch, local_web):
    async def silent(asked, writer):
        await asyncio.sleep(3600)

    local_web.handle("/v1/images/", silent)
    started(request_timeout=600.0, provider_timeout=600.0)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(fetch(timeout_seconds=300.0)))
    asking.start()
    eventually(lambda: local_web.asked, "under way")
    assert ros.change(NODE, "deactivate")
    asking.join()
    assert answers[0].result == FetchImages.Response.RESULT_NOT_READY
    assert query().result == QueryLabel.Response.RESULT_NOT_READY
    assert ros.change(NODE, "cleanup")
    assert fetch().result == FetchImages.Response.RESULT_NOT_READY
    assert ros.change(NODE, "configure")
    assert ros.change(NODE, "activate")
    assert query().result == QueryLabel.Response.RESULT_OK


def test_a_defect_has_a_code_and_a_traceback_and_the_node_lives(started, query, capfd):
    node = started()
    node.defect = True
    answer = query()
    assert answer.result == answer.RESULT_INTERNAL
    assert "the network has a hole" in capfd.readouterr().err
    node.defect = False
    assert query().result == answer.RESULT_OK


def test_what_has_to_be_set_is_told_in_one_line(ros, monkeypatch, capfd):
    monkeypatch.delenv("GOOGLE_VISION_API_KEY", raising=False)
    ros.add(CheapSight, label_providers=["google_vision"], autostart=False)
    assert not ros.change(NODE, "configure")
    assert ros.state(NODE) == UNCONFIGURED
    told = capfd.readouterr().err
    assert "google_vision needs a key in the environment variable GOOGLE_VISION_API_KEY" in told
    assert "Traceback" not in told


def test_diagnostics_count_what_was_asked(ros, started, query):
    newest = ros.diagnostics(NODE)
    started()
    query()
    status = eventually(lambda: (s := newest()) and "query_label_ok" in values(s) and s)
    assert status.message == "ready"
    assert values(status)["label_providers"] == "imagenet"


def test_the_executable_runs_and_ends_cleanly(ros, tmp_path):
    parameters = {
        "label_providers": [""], "filter_outliers": False, "image_folder": str(tmp_path),
    }  # fmt: skip
    arguments = [f"{name}:={json.dumps(value)}" for name, value in parameters.items()]
    process = ros.process(
        "-c", "from newfound_runtime.executable import main; main('web_query')", "--ros-args",
        *(part for argument in arguments for part in ("-p", argument)),
    )  # fmt: skip
    eventually(lambda: ros.state(NODE) == ACTIVE, "active")
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0, text
    assert "Traceback" not in text


def test_names_of_a_vocabulary_come_with_their_share_and_without_known_ones(
    started, query, photo, tmp_path
):
    (tmp_path / "stock.txt").write_text("teapot\nclaw hammer\nmug\n")
    views = [CompressedImage(format="jpeg", data=photo(n)) for n in (2, 3)]
    started(
        label_providers=["imagenet", "names"],
        combine_labels=True,
        names_checkpoint=str(ROOT / "models" / "names"),
        names_vocabulary=str(tmp_path / "stock.txt"),
        names_limit=0.0,
    )
    answer = query(more_crops=views, exclude=["Mug", "vase"])
    assert answer.result == answer.RESULT_OK
    found = {c.label: c for c in answer.candidates}
    assert found.keys() == {"teapot", "claw hammer"}
    assert found["teapot"].provider == "imagenet+names"
    assert 0.5 < found["claw hammer"].span_share < 1
