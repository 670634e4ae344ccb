# SPDX-License-Identifier: Apache-2.0
"""The interface files keep their promises: documented fields, named results."""

import re

import pytest
from sensor_msgs.msg import CompressedImage

import newfound_msgs.action
import newfound_msgs.msg
import newfound_msgs.srv
from newfound_runtime.testing import eventually
from tests import ROOT

FILES = sorted((ROOT / "src/newfound_msgs").glob("*/*.*"))
FIELD = re.compile(r"^[a-zA-Z]\S*\s+[a-z]\w*\s*(#.*)?$")

NAMED_IN_THE_ARCHITECTURE = {
    "msg": ["Classification", "AdaptationStatus", "PlaceCategory", "OpenWorldDetection",
            "OpenWorldDetections", "UnknownObject", "KnowledgeBase", "LearningStatus"],
    "srv": ["AddUnknownClass", "QueryLabel", "FetchImages", "ConfirmLabel", "ForgetClass",
            "ListClasses", "RestoreKnowledge"],
    "action": ["LearnClass"],
}  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_every_field_says_what_it_means(file):
    assert file.read_text().startswith("# "), "the file says what the whole is"
    bare = [
        line for line in file.read_text().splitlines() if FIELD.match(line) and "#" not in line
    ]
    assert bare == []


@pytest.mark.parametrize("kind", NAMED_IN_THE_ARCHITECTURE)
def test_every_interface_of_the_architecture_is_there(kind):
    module = getattr(newfound_msgs, kind)
    assert [n for n in NAMED_IN_THE_ARCHITECTURE[kind] if not hasattr(module, n)] == []


@pytest.mark.parametrize(
    "response",
    [getattr(newfound_msgs.srv, name).Response for name in NAMED_IN_THE_ARCHITECTURE["srv"]]
    + [newfound_msgs.action.LearnClass.Result],
    ids=lambda r: r.__name__,
)
def test_every_answer_has_a_named_result_and_a_message(response):
    fields = response.get_fields_and_field_types()
    assert fields["result"] == "uint8"
    assert fields["message"] == "string"
    assert response.RESULT_OK == 0
    assert response.RESULT_INTERNAL == 255


def test_codes_shared_by_the_service_and_the_action_are_equal():
    service = newfound_msgs.srv.AddUnknownClass.Response
    action = newfound_msgs.action.LearnClass.Result
    shared = [n for n in dir(service) if n.startswith("RESULT_") and hasattr(action, n)]
    assert len(shared) >= 8
    assert all(getattr(service, name) == getattr(action, name) for name in shared)


def test_an_unknown_object_travels_over_dds_unchanged(ros):
    sent = newfound_msgs.msg.UnknownObject(id="a1", sightings=3, nearest_label="mug", distance=2.5)
    sent.state = newfound_msgs.msg.UnknownObject.STATE_WAITING
    sent.crops.append(CompressedImage(format="jpeg", data=[255, 216, 255]))
    publisher = ros.publisher(newfound_msgs.msg.UnknownObject, "/unknowns")
    received = ros.collect(newfound_msgs.msg.UnknownObject, "/unknowns")
    ros.connected(publisher)
    publisher.publish(sent)
    eventually(lambda: received)
    assert received == [sent]
