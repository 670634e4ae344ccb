# SPDX-License-Identifier: Apache-2.0
"""The node over real DDS, with tiny random networks."""

import numpy as np
import pytest
from sensor_msgs.msg import Image

from newfound_core.models import load_model
from newfound_core.places import PlaceFilter
from newfound_msgs.msg import AdaptationStatus, PlaceCategory
from newfound_nodes.place_categorizer import PlaceCategorizer
from newfound_runtime.images import to_rgb
from newfound_runtime.testing import ACTIVE, UNCONFIGURED, eventually, values

PLACES = ("corridor", "kitchen", "office")


@pytest.fixture
def running(ros, checkpoint, stream):
    """An active node, its camera and what it publishes."""

    def start(method="wbn", rejects=None, **parameters):
        camera = stream()
        answers = ros.collect(PlaceCategory, "/place_categorizer/place")
        folder = checkpoint(method, labels=PLACES, rejects=rejects)
        node = ros.started(PlaceCategorizer, checkpoint=str(folder), **parameters)
        return node, camera.connect(node), answers

    return start


def test_the_node_starts_with_the_model_that_is_shipped_and_answers(ros, stream):
    camera, answers = stream(), ros.collect(PlaceCategory, "/place_categorizer/place")
    node = ros.started(PlaceCategorizer)
    camera.connect(node).send(node)
    answer = eventually(lambda: answers and answers[-1])
    assert answer.model.startswith("rooms@")
    assert answer.nearest_label in answer.labels
    assert answer.unknown_probability > 0.5  # noise is no room
    assert answer.label == ""


@pytest.mark.parametrize("method", ["bn", "wbn", "bsf"])
def test_an_image_gets_what_the_model_says_of_it(running, picture, method):
    node, camera, answers = running(method)
    camera.send(node)
    answer = eventually(lambda: answers and answers[-1])
    loaded, sent = load_model(node.param("checkpoint")), picture(1)
    expected = loaded.model.categorize(loaded.prepare([to_rgb(sent)]))
    assert answer.header == sent.header
    np.testing.assert_allclose(answer.probabilities, expected.probabilities[0], atol=1e-5)
    np.testing.assert_allclose(answer.domain_weights, expected.domain_weights[0], atol=1e-5)
    assert tuple(answer.labels) == PLACES
    assert answer.label == PLACES[int(expected.probabilities.argmax())]
    assert answer.confidence == max(answer.probabilities)
    assert list(answer.domains) == ([] if method == "bn" else ["townhouse", "loft"])
    assert list(answer.image_probabilities) == list(answer.probabilities)
    assert not answer.filtered
    assert answer.model.startswith(f"{method}@")


@pytest.mark.parametrize("method", ["bn", "wbn", "bsf"])
def test_a_place_of_no_known_kind_is_unknown_and_this_can_be_turned_off(ros, running, method):
    node, camera, answers = running(method, rejects=0.9)
    camera.send(node)
    answer = eventually(lambda: answers and answers[-1])
    assert (answer.label, answer.nearest_label in PLACES) == ("", True)
    assert answer.confidence == answer.unknown_probability == pytest.approx(0.9, abs=1e-3)
    assert sum(answer.probabilities) == pytest.approx(1, abs=1e-5)
    assert ros.set("/place_categorizer", reject_unknown=False).successful
    camera.send(node)
    answer = eventually(lambda: len(answers) > 1 and answers[-1])
    assert answer.label == answer.nearest_label
    assert answer.confidence == pytest.approx(0.1 * max(answer.probabilities), abs=1e-3)


def test_unknown_is_one_more_place_for_the_filter(running):
    node, camera, answers = running("bn", rejects=0.45, filter=True)
    camera.send(node, 3)
    eventually(lambda: len(answers) == 3)
    expected = PlaceFilter(4, 0.2)
    for answer in answers:
        seen = 0.55 * np.array(answer.image_probabilities)
        wanted = expected.update([*seen, 0.45])
    assert answers[-1].unknown_probability == pytest.approx(wanted[3], abs=1e-3)
    assert answers[-1].unknown_probability > 0.45


def test_the_filter_can_be_switched_on_and_off_while_the_stream_runs(ros, running):
    node, camera, answers = running("bn")
    camera.send(node)
    assert ros.set("/place_categorizer", filter=True).successful
    camera.send(node, 2)
    ros.set("/place_categorizer", filter=False)
    camera.send(node)
    eventually(lambda: len(answers) == 4)
    assert [answer.filtered for answer in answers] == [False, True, True, False]
    expected = PlaceFilter(3, 0.2)
    expected.update(answers[1].image_probabilities)
    wanted = expected.update(answers[2].image_probabilities)  # stamps are one second apart
    np.testing.assert_allclose(answers[2].probabilities, wanted, atol=1e-5)
    assert sum(answers[2].probabilities) == pytest.approx(1, abs=1e-5)
    assert list(answers[3].probabilities) == list(answers[3].image_probabilities)


def test_a_gap_in_time_begins_the_filter_anew(running):
    node, camera, answers = running("bn", filter=True, filter_gap=5.0)
    camera.send(node, 3)
    camera.number = 100
    camera.send(node)
    eventually(lambda: len(answers) == 4)
    last = answers[-1]
    np.testing.assert_allclose(last.probabilities, last.image_probabilities, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1])
def test_an_impossible_probability_of_change_is_refused(ros, running, value):
    running("bn")
    assert not ros.set("/place_categorizer", filter_change_probability=value).successful


def test_a_checkpoint_of_another_method_keeps_the_node_unconfigured(ros, checkpoint):
    ros.add(PlaceCategorizer, checkpoint=str(checkpoint("source")))
    eventually(lambda: ros.warnings("place_categorizer"))
    eventually(lambda: ros.state("/place_categorizer") == UNCONFIGURED)
    [line] = ros.warnings("place_categorizer")
    assert "method 'source', but bn or bsf or wbn is needed" in line


def test_diagnostics_tell_the_model_and_the_filter(ros, running):
    status = ros.diagnostics("/place_categorizer")
    running("wbn", filter=True)
    eventually(lambda: status() and values(status()).get("model"))
    told = values(status())
    assert told["model"].startswith("wbn@")
    assert (told["method"], told["filter"], told["backend"]) == ("wbn", "True", "torch")


def test_the_debug_image_is_made_only_while_somebody_looks(ros, running, monkeypatch):
    from newfound_nodes import debug_images

    drawn = []
    annotate = debug_images.annotate
    monkeypatch.setattr(debug_images, "annotate", lambda *a: drawn.append(a) or annotate(*a))
    node, camera, _ = running("wbn")
    camera.send(node)
    assert drawn == []
    pictures = ros.collect(Image, "/place_categorizer/debug_image")
    eventually(lambda: node.wanted("debug_image"))
    camera.send(node)
    shown = eventually(lambda: pictures and pictures[-1])
    assert len(drawn) == 1
    assert list(drawn[0][2].names) == ["townhouse", "loft"]
    assert (shown.width, shown.encoding, shown.header.stamp.sec) == (640, "rgb8", 2)


@pytest.mark.slow
def test_onnx_serves_the_same(ros, checkpoint, stream, picture):
    camera, folder = stream(), checkpoint("wbn", labels=PLACES)
    answers = ros.collect(PlaceCategory, "/place_categorizer/place")
    node = ros.add(PlaceCategorizer, checkpoint=str(folder), backend="onnx")
    eventually(lambda: node.state() == ACTIVE, timeout=250)  # the export takes its time
    camera.connect(node).send(node)
    answer = eventually(lambda: answers and answers[-1])
    loaded = load_model(node.param("checkpoint"))
    expected = loaded.model.categorize(loaded.prepare([to_rgb(picture(1))]))
    np.testing.assert_allclose(answer.probabilities, expected.probabilities[0], atol=1e-4)
    np.testing.assert_allclose(answer.domain_weights, expected.domain_weights[0], atol=1e-4)


@pytest.mark.parametrize("method", ["bn", "wbn"])
def test_with_adapt_the_last_layers_follow_the_stream(ros, running, method):
    told = ros.collect(AdaptationStatus, "/place_categorizer/adaptation")
    node, camera, answers = running(method, adapt=True, frames_per_update=2)
    before = {k: v.clone() for k, v in node.loaded.model.state_dict().items()}

    def moved():
        now = node.loaded.model.state_dict()
        return [k for k, v in before.items() if not v.equal(now[k])]

    eventually(lambda: camera.send(node) or len(moved()) >= 8, "an update")
    assert len(moved()) == 8, "mean and variance of the last four layers, and nothing else"
    assert all("running" in name for name in moved())
    eventually(lambda: told and told[-1].updates >= 1)
    assert (told[-1].state, len(told[-1].layers)) == (AdaptationStatus.STATE_ADAPTING, 4)
    assert answers[-1].label in PLACES


def test_without_adapt_the_model_stays_as_it_was_trained(ros, running):
    told = ros.collect(AdaptationStatus, "/place_categorizer/adaptation")
    running()
    assert eventually(lambda: told and told[-1]).state == AdaptationStatus.STATE_DISABLED
