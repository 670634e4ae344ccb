# SPDX-License-Identifier: Apache-2.0
"""Unknown, asked, confirmed, fetched, learned, recognised: three real nodes over DDS."""

import array

import numpy as np
import pytest
from PIL import Image as Picture
from sensor_msgs.msg import Image

from newfound_core.testing import square, tiny_open_world
from newfound_msgs.msg import LabelProposal, OpenWorldDetections, UnknownObject
from newfound_msgs.srv import ConfirmLabel
from newfound_nodes.curation.node import Curator
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_runtime.testing import eventually, image
from newfound_web.web_query import WebQuery

YELLOW, BLACK, RED = (230, 220, 40), (5, 5, 5), (220, 40, 40)
DETECTOR = "/open_world_detector"


class ColourSight(WebQuery):
    """The node with features that take no time: colours."""

    def load_network(self):
        return self

    def features(self, rgb):
        return np.asarray(rgb, np.float32).mean((0, 1)) - 110.0


@pytest.fixture
def library(tmp_path):
    """Pictures of a lemon and of coal."""
    for label, colour in (("lemon", YELLOW), ("coal", BLACK)):
        (tmp_path / "library" / label).mkdir(parents=True)
        for number in range(4):
            # Each of another shade, so that none passes for a copy of another.
            pixels = square(colour, number)[:, : 64 - 8 * number]
            pixels[: 12 * number] = 255 - 60 * number
            Picture.fromarray(pixels).save(tmp_path / "library" / label / f"{number}.png")
    return str(tmp_path / "library")


@pytest.fixture
def stack(ros, tmp_path, library):
    """All nodes, active."""
    images = str(tmp_path / "images")
    detector = ros.started(
        OpenWorldDetector,
        checkpoint=str(tiny_open_world(tmp_path / "model")),
        knowledge_base=str(tmp_path / "knowledge"),
        proposer="whole_image",
        announce_after=3,
        learning_epochs=1,
        learning_threads=1,
        learning_niceness=0,
        max_accuracy_loss=1.0,
    )
    ros.started(
        ColourSight,
        label_providers=["library"],
        image_providers=["library"],
        library_folder=library,
        image_folder=images,
        cache_folder=str(tmp_path / "cache"),
        min_free_mb=0,
        filter_outliers=False,
    )
    ros.started(Curator, state_folder=str(tmp_path / "state"), image_folder=images)
    return detector


class Bench:
    """A camera, what the nodes say, and a person."""

    def __init__(self, ros, detector):
        self._ros = ros
        self._detections = ros.collect(OpenWorldDetections, f"{DETECTOR}/detections")
        self.unknowns = ros.collect(UnknownObject, f"{DETECTOR}/unknowns")
        self._status = ros.collect(LabelProposal, "/curator/status")
        self._camera = ros.publisher(Image, "/image")
        ros.connected(self._camera)
        eventually(lambda: detector._input.reliability() == "reliable", "reliable subscription")

    def see(self, colour, times=1):
        """Show a colour; what was detected last."""
        for number in range(times):
            pixels, before = square(colour, number), len(self._detections)
            message = image(pixels.shape[1], pixels.shape[0], before)
            message.data = array.array("B", pixels.tobytes())
            self._camera.publish(message)
            eventually(lambda b=before: len(self._detections) > b, "detections")
        return self._detections[-1].detections[0]

    def proposal(self, state):
        """The first status of this state."""
        wanted = getattr(LabelProposal, f"STATE_{state}")
        return eventually(
            lambda: next((s for s in self._status if s.state == wanted), None), state, timeout=250
        )

    def answer(self, unknown_id, decision):
        request = ConfirmLabel.Request(unknown_id=unknown_id, decision=decision)
        return self._ros.call(ConfirmLabel, "/curator/confirm_label", request)


@pytest.mark.slow
def test_the_loop_closes(ros, stack):
    bench = Bench(ros, stack)
    assert bench.see(YELLOW, 4).label == ""
    asked = bench.proposal("WAITING")
    assert (asked.candidates[0].label, asked.candidates[0].provider) == ("lemon", "library")
    decided = bench.answer(asked.unknown_id, ConfirmLabel.Request.DECISION_CONFIRM)
    assert decided.label == "lemon"
    learned = bench.proposal("LEARNED")
    assert (learned.unknown_id, learned.label) == (asked.unknown_id, "lemon")
    assert learned.images > 0
    assert bench.see(YELLOW).label == "lemon"
    assert bench.see(RED).label == "red"


def test_what_a_person_dismisses_is_dismissed_at_the_detector(ros, stack):
    bench = Bench(ros, stack)
    assert bench.see(BLACK, 4).label == ""
    asked = bench.proposal("WAITING")
    assert asked.candidates[0].label == "coal"
    bench.answer(asked.unknown_id, ConfirmLabel.Request.DECISION_DISMISS)
    bench.proposal("DISMISSED")
    eventually(lambda: bench.unknowns[-1].state == UnknownObject.STATE_DISMISSED)
    assert stack.session.unknown(asked.unknown_id).state == "dismissed"
