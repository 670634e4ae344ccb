# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from newfound_core.open_world.decision import UNKNOWN
from newfound_core.open_world.heads import build_head
from newfound_training.openworld.measure import Queries, confusion, measure, trade_off


@pytest.fixture
def head():
    """Two classes on a line, at 0 and 10, each reaching 2 far, the second one 6."""
    head = build_head("ncm", 1)
    head.extend(["a", "b"])
    features = torch.tensor([[0.0], [10.0]])
    head.refit([(features, torch.tensor([0, 1]))], features_changed=True)
    head.rejection_threshold = torch.tensor([2.0, 6.0])
    return head


@pytest.fixture
def queries():
    """Right, rejected, right; an unknown that is rejected by the nearest class only, and one."""
    return Queries(
        torch.tensor([[1.0], [3.0], [9.0], [4.5], [-8.0]]),
        torch.tensor([0, 0, 1, UNKNOWN, UNKNOWN]),
    )


def test_both_rules_are_measured(head, queries):
    found = measure(head, queries)
    assert found["chosen"] == "nearest_beyond"
    assert found["nearest_beyond"]["open_set"] == 1.0
    assert found["all_beyond"]["open_set"] == 0.5  # 4.5 lies within the reach of b
    for rule in ("nearest_beyond", "all_beyond"):
        assert found[rule]["closed_world_with_rejection"] == pytest.approx(2 / 3)
    assert head.config.reject_when == "nearest_beyond"  # and the head stays as it was


def test_confusion_counts_every_sample_once(head, queries):
    assert confusion(head, queries) == [[1, 0, 1], [0, 1, 0], [0, 0, 2]]


def test_the_trade_off_goes_from_accepting_to_rejecting_everything(head, queries):
    found = trade_off(head, queries)
    right, rejected = zip(*found["curve"], strict=True)
    assert sorted(right, reverse=True) == list(right)
    assert sorted(rejected) == list(rejected)
    assert (right[-1], rejected[-1]) == (0.0, 1.0)
    assert found["at_threshold"] == [pytest.approx(2 / 3), 1.0]
