# SPDX-License-Identifier: Apache-2.0
"""Unknown, asked, confirmed, fetched, learned, recognised: three real nodes over DDS."""

import array

import numpy as np
import pytest
from PIL import Image as Picture
from sensor_msgs.msg import Image

from newfound_msgs.msg import LabelProposal, OpenWorldDetections, UnknownObject
from newfound_msgs.srv import ConfirmLabel
from newfound_nodes.curation.node import Curator
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_web.web_query import WebQuery
from tests.checkpoints import square, tiny_open_world
from tests.harness import eventually, image

YELLOW, BLACK, RED = (230, 220, 40), (5, 5, 5), (220, 40, 40)
DETECTOR = "/open_world_detector"


class ColourSight(WebQuery):
    """The node with features that take no time: colours."""

    def sight(self):
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


@pytest.mark.slow
def test_the_loop_closes_and_what_is_dismissed_is_left_alone(ros, stack):
    detections = ros.collect(OpenWorldDetections, f"{DETECTOR}/detections")
    unknowns = ros.collect(UnknownObject, f"{DETECTOR}/unknowns")
    status = ros.collect(LabelProposal, "/curator/status")
    camera = ros.publisher(Image, "/image")
    ros.connected(camera)
    eventually(lambda: stack._input.reliability() == "reliable", "reliable subscription")

    def see(colour, times=1):
        for number in range(times):
            pixels, before = square(colour, number), len(detections)
            message = image(pixels.shape[1], pixels.shape[0], before)
            message.data = array.array("B", pixels.tobytes())
            camera.publish(message)
            eventually(lambda b=before: len(detections) > b, "detections")
        return detections[-1].detections[0]

    def proposal(phase, *others):
        wanted = getattr(LabelProposal, f"STATE_{phase}")
        return eventually(
            lambda: next(
                (s for s in status if s.state == wanted and s.unknown_id not in others), None
            ),
            phase,
            patience=200,
        )

    def answer(unknown_id, decision, label=""):
        request = ConfirmLabel.Request(unknown_id=unknown_id, decision=decision, label=label)
        return ros.call(ConfirmLabel, "/curator/confirm_label", request)

    assert see(BLACK, 4).label == ""
    coal = proposal("WAITING")
    assert (coal.candidates[0].label, coal.candidates[0].provider) == ("coal", "library")
    answer(coal.unknown_id, ConfirmLabel.Request.DECISION_DISMISS)
    proposal("DISMISSED")
    eventually(lambda: unknowns[-1].state == UnknownObject.STATE_DISMISSED)

    assert see(YELLOW, 4).label == ""
    asked = proposal("WAITING", coal.unknown_id)
    assert asked.candidates[0].label == "lemon"
    assert answer(asked.unknown_id, ConfirmLabel.Request.DECISION_CONFIRM).label == "lemon"
    learned = proposal("LEARNED")
    assert (learned.unknown_id, learned.label) == (asked.unknown_id, "lemon")
    assert learned.images > 0
    assert see(YELLOW).label == "lemon"
    assert see(RED).label == "red"
