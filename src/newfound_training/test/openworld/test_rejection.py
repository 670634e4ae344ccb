# SPDX-License-Identifier: Apache-2.0
import torch

from newfound_core.open_world.limits import limit_loss
from newfound_core.open_world.memory import Memory, MemoryConfig
from newfound_training.openworld.rejection import (
    limits_of,
    rejection_ablation,
    shared_limit,
    trained_on,
)


def test_the_shared_limit_costs_no_more_than_any_other():
    generator = torch.Generator().manual_seed(0)
    distances = torch.rand(30, 4, generator=generator, dtype=torch.float64) * 5
    labels = torch.arange(30) % 4
    distances[torch.arange(30), labels] *= 0.5  # own classes are nearer
    limit = shared_limit(distances, labels)
    assert limit.shape == (4,)
    assert limit.unique().numel() == 1
    best = limit_loss(distances, labels, limit)
    for other in torch.linspace(0, 5, 200, dtype=torch.float64):
        assert best <= limit_loss(distances, labels, other.expand(4)) + 1e-9


def test_samples_trained_on_are_the_new_ones_not_held_out_and_the_remembered_ones(make_samples):
    from dataclasses import replace

    old, new = make_samples("old", 3), make_samples("new", 4, seed=1)
    before = Memory(MemoryConfig(9), {"old": [*old[:2], replace(old[2], held_out=True)]})
    limits_from = [replace(old[2], held_out=True), replace(new[3], held_out=True)]
    found = [s.source for s in trained_on(new, before, limits_from)]
    assert found == ["new0", "new1", "new2", "old0", "old1"]


def test_class_specific_limits_of_two_stages_are_the_methods_own(make_incremental, monkeypatch):
    steps, measured = [], []

    def keep(model, test, inputs, **samples):
        steps.append((model, samples["limits_from"]))
        measured.append(rejection_ablation(model, test, inputs, **samples))
        return measured[-1]

    monkeypatch.setattr("newfound_training.openworld.incremental.rejection_ablation", keep)
    outcome = make_incremental().run()
    for (model, limits_from), found, record in zip(steps, measured, outcome.records, strict=True):
        limits = limits_of(model, limits_from)["class_specific"]
        assert torch.equal(limits.to(model.head.limit.dtype), model.head.limit)
        assert found["two_stage_class_specific"] == record["metrics"]
    assert len(steps[-1][1].samples) > len(outcome.memory.held_out())  # before the memory is cut


def test_a_run_measures_every_way_to_set_limits(make_incremental):
    record = make_incremental().run().records[-1]
    assert set(record["rejection"]) == {
        f"{stage}_{limits}"
        for stage in ("two_stage", "one_stage")
        for limits in ("class_specific", "shared", "percentile")
    }
