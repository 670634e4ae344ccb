# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest
import torch

from newfound_core.errors import DataError
from newfound_core.open_world.inputs import Inputs
from newfound_core.open_world.learner import learn_step
from newfound_core.open_world.memory import Memory, MemoryConfig
from newfound_core.open_world.step_config import (
    EpochState,
    Hooks,
    LearningCancelledError,
    StepConfig,
)

CONFIG = StepConfig(epochs=3, batch_size=16, learning_rate=0.01, clip_gradient=5.0)
MEMORY = MemoryConfig(size=24, held_out_share=0.25)


def first_step(toy, method="bdoc", **options):
    new = toy.samples("cup", 20) + toy.samples("fork", 20)
    model = toy.model(method)
    return learn_step(model, new, Memory(MEMORY), toy.inputs, CONFIG, **options)


def snapshot(model):
    return {key: value.clone() for key, value in model.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def key(sample):
    return sample.label, sample.pixels().tobytes()


def test_the_model_and_the_memory_given_are_left_as_they_are(toy):
    step = first_step(toy)
    before, kept = snapshot(step.model), [key(s) for s in step.memory.training()]
    learn_step(step.model, toy.samples("lamp"), step.memory, toy.inputs, CONFIG)
    assert same(snapshot(step.model), before)
    assert [key(s) for s in step.memory.training()] == kept
    assert step.model.labels == ["cup", "fork"]


def test_a_cancelled_step_raises_and_leaves_the_model(toy):
    step = first_step(toy)
    before = snapshot(step.model)
    with pytest.raises(LearningCancelledError):
        learn_step(
            step.model,
            toy.samples("lamp"),
            step.memory,
            toy.inputs,
            CONFIG,
            hooks=Hooks(should_stop=lambda: True),
        )
    assert same(snapshot(step.model), before)


def test_means_at_the_end_are_the_exact_means_of_the_finished_network(toy):
    step = learn_step(
        toy.model("deepnno"),
        toy.samples("cup", 20) + toy.samples("fork", 20),
        Memory(MemoryConfig(40, held_out_share=0.0)),
        toy.inputs,
        CONFIG,
    )
    with torch.no_grad():
        for index, label in enumerate(["cup", "fork"]):
            features = step.model(toy.batch(toy.samples(label, 20))).double().numpy()
            found = step.model.head.means.value[index].numpy()
            np.testing.assert_allclose(found, features.mean(0), atol=1e-5)


def test_held_out_samples_are_never_trained_on_over_several_steps(toy):
    trained, fitted = set(), set()

    def prepare_for_training(image, generator):
        trained.add(image.tobytes())
        return toy.inputs.prepare(image)

    def prepare_for_thresholds(image, generator):
        fitted.add(image.tobytes())
        return toy.inputs.prepare(image)

    inputs = Inputs(toy.inputs.prepare, prepare_for_training, prepare_for_thresholds)
    model, memory = toy.model("bdoc"), Memory(MEMORY)
    for label in ("cup", "fork", "lamp"):
        unique = {s.pixels().tobytes(): s for s in toy.samples(label, 25)}
        step = learn_step(model, list(unique.values()), memory, inputs, CONFIG)
        model, memory = step.model, step.memory
        assert memory.held_out()
    assert trained
    assert fitted
    assert not trained & fitted


def test_the_memory_never_exceeds_its_size_and_holds_every_class(toy):
    step = first_step(toy)
    for label in ("lamp", "shoe"):
        step = learn_step(step.model, toy.samples(label), step.memory, toy.inputs, CONFIG)
        assert len(step.memory) <= 24
    assert step.memory.labels == toy.classes
    assert [len(step.memory.samples(label)) for label in toy.classes] == [6, 6, 6, 6]


def test_the_memory_keeps_the_samples_nearest_to_their_mean(toy):
    step = first_step(toy, "ncm")
    kept = [s for s in step.memory.samples("cup") if not s.held_out]
    everything = toy.samples("cup", 20)
    held = {key(s) for s in step.memory.held_out()}
    mean = step.model.head.means.value[0]
    with torch.no_grad():
        distances = (step.model(toy.batch(everything)) - mean).norm(dim=1).tolist()
    ranked = [s for _, s in sorted(zip(distances, everything, strict=True), key=lambda p: p[0])]
    candidates = [s for s in ranked if key(s) not in held]
    nearest = {key(s) for s in candidates[: len(kept) + 3]}  # room for held-out ones pruned since
    assert {key(s) for s in kept} <= nearest


def test_more_samples_of_a_known_class_do_not_make_a_new_one(toy):
    step = first_step(toy)
    again = learn_step(step.model, toy.samples("cup", seed=3), step.memory, toy.inputs, CONFIG)
    assert again.new_labels == []
    assert again.model.labels == ["cup", "fork"]


def test_frozen_features_leave_the_means_of_old_classes_alone(toy):
    step = first_step(toy, "ncm")
    assert not step.trained
    later = learn_step(step.model, toy.samples("lamp"), step.memory, toy.inputs, CONFIG)
    assert torch.equal(later.model.head.means.value[:2], step.model.head.means.value)
    assert same(snapshot(later.model.backbone), snapshot(step.model.backbone))


@pytest.mark.parametrize("method", ["bdoc", "deepnno"])
def test_a_class_added_without_training_leaves_the_others_as_they_were(toy, method):
    step = first_step(toy, method)
    added = learn_step(
        step.model, toy.samples("lamp"), step.memory, toy.inputs, replace(CONFIG, epochs=0)
    )
    before, after = step.model.head, added.model.head
    assert not added.trained
    assert same(snapshot(added.model.backbone), snapshot(step.model.backbone))
    assert torch.equal(after.means.value[:2], before.means.value)
    assert torch.equal(after.rejection_threshold[:2], before.rejection_threshold)
    assert after.rejection_threshold[2].isfinite()
    assert after.decide(after.means.value[2:]).label.tolist() == [2]


def test_a_method_that_trains_can_run_on_a_frozen_network(toy):
    config = StepConfig(trainable=())
    for method in ("deepnno", "bdoc"):
        model = toy.model(method)
        new = toy.samples("cup") + toy.samples("fork")
        step = learn_step(model, new, Memory(MEMORY), toy.inputs, config)
        assert not step.trained
        assert same(snapshot(step.model.backbone), snapshot(model.backbone))
        assert step.model.head.rejection_threshold.isfinite().all()


def test_the_same_seed_gives_the_same_step(toy):
    one, other = first_step(toy), first_step(toy)
    assert same(snapshot(one.model), snapshot(other.model))
    assert [key(s) for s in one.memory.held_out()] == [key(s) for s in other.memory.held_out()]


def test_an_interrupted_step_resumes_to_the_same_end(toy):
    states: list[EpochState] = []
    whole = first_step(toy, hooks=Hooks(on_epoch_end=states.append))
    resumed = first_step(toy, resume=states[0])
    assert same(snapshot(whole.model), snapshot(resumed.model))


def test_progress_tells_every_phase_to_its_end(toy):
    seen = []
    first_step(toy, hooks=Hooks(on_progress=seen.append))
    assert list(dict.fromkeys(p.phase for p in seen)) == ["training", "means", "thresholds"]
    for phase in ("training", "means", "thresholds"):
        last = [p for p in seen if p.phase == phase][-1]
        assert last.done == last.total
    assert "total" in seen[0].losses


def test_a_class_can_be_learnt_from_one_image(toy):
    step = first_step(toy, "ncm")
    later = learn_step(step.model, toy.samples("lamp", 1), step.memory, toy.inputs, CONFIG)
    decision = later.model.decide(toy.batch(toy.samples("lamp", 1)))
    assert decision.label.tolist() == [2]


def test_nothing_to_learn_is_an_error(toy):
    with pytest.raises(DataError, match="no new samples"):
        learn_step(toy.model("ncm"), [], Memory(), toy.inputs)
