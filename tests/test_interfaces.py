# SPDX-License-Identifier: Apache-2.0
"""The interface files keep their promises: documented fields, named results."""

import re

import pytest
from sensor_msgs.msg import CompressedImage

import newfound_msgs.action
import newfound_msgs.msg
import newfound_msgs.srv
from newfound_core.learning.job import JobState
from newfound_runtime.testing import eventually
from tests import ROOT

FILES = sorted((ROOT / "src/newfound_msgs").glob("*/*.*"))
SERVICES = [
    n for n in dir(newfound_msgs.srv) if hasattr(getattr(newfound_msgs.srv, n), "Response")
]
FIELD = re.compile(r"^[a-zA-Z]\S*\s+[a-z]\w*\s*(#.*)?$")

NAMED_IN_THE_ARCHITECTURE = {
    "msg": ["Classification", "AdaptationStatus", "PlaceCategory", "OpenWorldDetection",
            "OpenWorldDetections", "UnknownObject", "KnowledgeBase", "LearningStatus"],
    "srv": ["AddUnknownClass", "QueryLabel", "FetchImages", "ConfirmLabel", "ForgetClass",
            "ListClasses", "RestoreKnowledge", "AddSegmentClass"],
    "action": ["LearnClass", "LearnSegment"],
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
    + [newfound_msgs.action.LearnClass.Result, newfound_msgs.action.LearnSegment.Result],
    ids=lambda r: r.__name__,
)
def test_every_answer_has_a_named_result_and_a_message(response):
    fields = response.get_fields_and_field_types()
    assert fields["result"] == "uint8"
    assert fields["message"] == "string"
    assert response.RESULT_OK == 0
    assert response.RESULT_INTERNAL == 255


def codes(kind):
    return {name: getattr(kind, name) for name in dir(kind) if name.startswith("RESULT_")}


@pytest.mark.parametrize(
    "response",
    [getattr(newfound_msgs.srv, name).Response for name in SERVICES]
    + [newfound_msgs.action.LearnClass.Result, newfound_msgs.action.LearnSegment.Result],
    ids=lambda r: r.__name__,
)
def test_every_result_code_has_the_number_of_the_one_list(response):
    shared = codes(newfound_msgs.msg.ResultCode)
    assert len(set(shared.values())) == len(shared)
    assert {n: shared.get(n) for n in codes(response)} == codes(response)


def test_job_states_are_those_of_the_message():
    message = newfound_msgs.msg.LearningStatus
    numbers = {state: getattr(message, f"STATE_{state.upper()}") for state in JobState}
    assert {state for state, number in numbers.items() if number >= 10} == {
        state for state in JobState if state.final
    }
    assert len(numbers) == len([n for n in dir(message) if n.startswith("STATE_")])


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
