# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from newfound_core.open_world.head import UNKNOWN
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.losses import threshold_loss
from newfound_core.open_world.memory import Memory, MemoryConfig
from newfound_training.openworld.measures import (
    Queries,
    confusion,
    measure,
    rejection_ablation,
    shared_threshold,
    thresholds_of,
    trade_off,
    trained_on,
)


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


def test_the_shared_threshold_costs_no_more_than_any_other():
    generator = torch.Generator().manual_seed(0)
    distances = torch.rand(30, 4, generator=generator, dtype=torch.float64) * 5
    labels = torch.arange(30) % 4
    distances[torch.arange(30), labels] *= 0.5  # own classes are nearer
    threshold = shared_threshold(distances, labels)
    assert threshold.shape == (4,)
    assert threshold.unique().numel() == 1
    best = threshold_loss(distances, labels, threshold)
    for other in torch.linspace(0, 5, 200, dtype=torch.float64):
        assert best <= threshold_loss(distances, labels, other.expand(4)) + 1e-9


def test_samples_trained_on_are_the_new_ones_not_held_out_and_the_remembered_ones(make_samples):
    from dataclasses import replace

    old, new = make_samples("old", 3), make_samples("new", 4, seed=1)
    before = Memory(MemoryConfig(9), {"old": [*old[:2], replace(old[2], held_out=True)]})
    thresholds_from = [replace(old[2], held_out=True), replace(new[3], held_out=True)]
    found = [s.source for s in trained_on(new, before, thresholds_from)]
    assert found == ["new0", "new1", "new2", "old0", "old1"]


def test_class_specific_thresholds_of_two_stages_are_the_methods_own(
    make_incremental, monkeypatch
):
    steps, measured = [], []

    def keep(model, test, inputs, **samples):
        steps.append((model, samples["thresholds_from"]))
        measured.append(rejection_ablation(model, test, inputs, **samples))
        return measured[-1]

    monkeypatch.setattr("newfound_training.openworld.incremental.rejection_ablation", keep)
    outcome = make_incremental().run()
    for (model, thresholds_from), found, record in zip(
        steps, measured, outcome.records, strict=True
    ):
        thresholds = thresholds_of(model, thresholds_from)["class_specific"]
        assert torch.equal(
            thresholds.to(model.head.rejection_threshold.dtype), model.head.rejection_threshold
        )
        assert found["two_stage_class_specific"] == record["metrics"]
    assert len(steps[-1][1].samples) > len(outcome.memory.held_out())  # before the memory is cut


def test_a_run_measures_every_way_to_set_thresholds(make_incremental):
    record = make_incremental().run().records[-1]
    assert set(record["rejection"]) == {
        f"{stage}_{thresholds}"
        for stage in ("two_stage", "one_stage")
        for thresholds in ("class_specific", "shared", "percentile")
    }
