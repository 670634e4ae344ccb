# SPDX-License-Identifier: Apache-2.0
from newfound_web.errors import Outcome, failures_text, outcome_without_result


def test_only_when_every_provider_failed_they_failed():
    assert outcome_without_result({"a": "x", "b": "y"}, 2) is Outcome.PROVIDERS_FAILED
    assert outcome_without_result({"a": "x"}, 2) is Outcome.NOTHING_FOUND
    assert outcome_without_result({}, 0) is Outcome.NOTHING_FOUND


def test_each_failure_has_its_reason():
    assert failures_text({"a": "down", "b": "no key"}) == "a: down; b: no key"
