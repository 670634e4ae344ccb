# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_nodes.curation.decision import RefusedError, label_of
from newfound_nodes.curation.proposal import Candidate, Proposal

ASKED = Proposal("u1", "waiting", candidates=(Candidate("teapot", 0.8, "library"),))


def test_the_first_candidate_is_confirmed_whether_it_is_named_or_not():
    assert label_of(ASKED, "confirm", "") == "teapot"
    assert label_of(ASKED, "confirm", "teapot") == "teapot"
    assert label_of(ASKED, "correct", "kettle") == "kettle"


@pytest.mark.parametrize(
    ("proposal", "decision", "label", "code"),
    [
        (ASKED, "confirm", "kettle", "INVALID_DECISION"),
        (Proposal("u1"), "confirm", "", "INVALID_LABEL"),
        (ASKED, "correct", "", "INVALID_LABEL"),
        (ASKED, "correct", "a/b", "INVALID_LABEL"),
    ],
)
def test_what_cannot_be_meant_is_refused(proposal, decision, label, code):
    with pytest.raises(RefusedError) as refused:
        label_of(proposal, decision, label)
    assert refused.value.code == code
