# SPDX-License-Identifier: Apache-2.0
import torch

from newfound_core.open_world.memory import Memory, MemoryConfig
from newfound_core.open_world.thresholds import threshold_loss
from newfound_training.openworld.rejection import (
    rejection_ablation,
    shared_threshold,
    thresholds_of,
    trained_on,
)


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
