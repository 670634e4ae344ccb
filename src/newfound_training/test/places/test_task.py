# SPDX-License-Identifier: Apache-2.0

from dataclasses import replace

import numpy as np
import pytest
import torch

from newfound_training.places.data import Sources
from newfound_training.places.models import build_place_model
from newfound_training.places.task import (
    AS_PRINTED,
    CANDIDATES,
    PlaceData,
    PlaceTask,
    Softening,
    choose_softening,
    soften,
)
from newfound_training.running.training import train


@pytest.fixture
def make_task(images, tiny, make_run):
    def make(seed=0, name="run", **changes):
        options = replace(tiny, **changes)
        run = make_run(seed, name)
        sources = Sources.split(images, ["cottage", "loft"], 0.2, seed)
        return PlaceTask(PlaceData(images, options, run), sources, options, run), options, run

    return make


@pytest.mark.parametrize("variants", [0, 2])
def test_a_batch_is_a_function_of_seed_and_step(make_task, variants):
    (one, *_), (other, *_) = (make_task(remembered_variants=variants) for _ in range(2))
    assert torch.equal(one.batch(5).inputs, other.batch(5).inputs)
    assert not torch.equal(one.batch(5).inputs, one.batch(6).inputs)
    assert torch.bincount(one.batch(5).domains).tolist() == [6, 6]


def test_labels_and_domains_are_those_of_the_images(make_task):
    task, *_ = make_task()
    batch = task.batch(3)
    chosen, _ = task._order(3)
    images = task.data.images
    assert batch.labels.tolist() == images.labels[chosen].tolist()
    assert [task.sources.names[d] for d in batch.domains] == images.domains[chosen].tolist()


@pytest.mark.parametrize(
    ("method", "variants"), [("bn", 1), ("wbn", 1), ("wbn-latent", 1), ("bsf", 1), ("wbn", 0)]
)
def test_every_method_learns_from_images_and_from_rows(make_task, method, variants):
    task, options, run = make_task(
        method=method, remembered_variants=variants, iterations=30, name=method
    )
    first = sum(task.loss(task.batch(0)).values()).item()
    metrics = train(task, options, run)
    task.model.train()
    assert sum(task.loss(task.batch(0)).values()).item() < first / 2
    assert metrics["validation_accuracy"] > 0.6  # three colours; chance is a third


def test_the_whole_model_says_of_images_what_the_rest_says_of_rows(make_task):
    task, options, run = make_task(method="wbn")
    train(task, options, run)
    indices = task.data.images.of("villa")
    expected = task.predict(indices)
    images = [task.data.images.pixels[i] for i in indices]
    found = task.whole().eval().categorize(task.data.preprocessing.batch(images))
    np.testing.assert_allclose(found.domain_weights, expected.domain_weights, atol=0.01)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=0.01)


def test_accuracy_is_the_share_of_right_predictions(make_task):
    task, *_ = make_task(method="bn")
    indices = task.data.images.of("villa")
    predicted = task.predict(indices, batch_size=7).probabilities.argmax(1)
    right = sum(p == task.data.images.labels[i] for p, i in zip(predicted, indices, strict=True))
    assert task.accuracy(indices) == pytest.approx(right / 24)


def test_the_branch_has_a_learning_rate_of_its_own(make_task):
    task, *_ = make_task(method="wbn", branch_lr=0.5)
    rates = {id(p): g["lr"] for g in task.parameter_groups(0.01, 0.02) for p in g["params"]}
    trained = [p for p in task.model.parameters() if p.requires_grad]
    assert len(rates) == len(trained)
    assert {rates[id(p)] for p in task.model.branch.parameters()} == {0.5}
    assert {rates[id(p)] for p in task.model.classifier.parameters()} == {0.02}


def test_whether_the_branch_names_the_domain_is_measured_where_domains_are_labelled(make_task):
    task, options, run = make_task(method="wbn", iterations=1)
    metrics = train(task, options, run)
    held_out = task.sources.validation
    weights = task.predict(held_out).domain_weights
    own = np.array([task.sources.names.index(d) for d in task.data.images.domains[held_out]])
    assert metrics["domain_accuracy"] == pytest.approx(np.mean(weights.argmax(1) == own))
    assert "domain_accuracy" not in make_task(method="wbn-latent")[0].evaluate()


def test_two_processes_see_what_one_sees(make_task, images):
    from newfound_training.running.distributed import DistributedGroup

    task, *_ = make_task(method="bn")
    whole = task.batch(2)
    task._run = replace(task._run, process_group=DistributedGroup(1, 2))
    half = task.batch(2)
    assert torch.equal(whole.inputs[1::2], half.inputs)
    assert torch.equal(whole.domains[1::2], half.domains)


@pytest.fixture
def setting(images, tiny, make_run):
    run = make_run()
    return PlaceData(images, tiny, run), tiny, run


def test_the_printed_formula_comes_first_and_equal_weights_are_no_candidate():
    assert CANDIDATES[0] == AS_PRINTED == (0.0, 1.0)
    assert max(candidate.smoothing for candidate in CANDIDATES) < 1


def test_softening_sets_what_the_model_does_at_test_time(tiny):
    model = build_place_model(tiny, 3, 2)
    soften(model, Softening(0.25, 3.0))
    assert (model.config.assignment_smoothing, model.config.assignment_temperature) == (0.25, 3.0)
    assert model.config.domain_loss_weight == 1.0


def test_the_best_on_sources_held_out_is_chosen_and_kept(setting, images, monkeypatch):
    data, options, run = setting
    sources = Sources.split(images, ["cottage", "loft", "villa"], 0.1, seed=0)
    best, listed = choose_softening(data, sources, options, run)
    assert listed[-1]["smoothing"] == 1.0  # only to compare with
    means = [entry["accuracy"] for entry in listed[:-1]]
    assert best == CANDIDATES[means.index(max(means))]
    assert {p.parent.name for p in run.out.glob("held_out/*/accuracy.json")} == set(sources.names)
    # Again: nothing is trained.
    monkeypatch.setattr("newfound_training.places.task.train", None)
    assert choose_softening(data, sources, options, run) == (best, listed)


def test_a_training_for_the_choice_never_sees_the_source_it_is_tested_on(
    setting, images, monkeypatch
):
    data, options, run = setting
    seen = []
    monkeypatch.setattr(
        "newfound_training.places.task.train",
        lambda task, *_: seen.append(task.sources.names),
    )
    sources = Sources.split(images, ["cottage", "loft", "villa"], 0.1, seed=0)
    choose_softening(data, sources, options, run)
    assert seen == [("loft", "villa"), ("cottage", "villa"), ("cottage", "loft")]


@pytest.mark.parametrize(
    ("names", "how"),
    [(["cottage", "loft"], "held-out"), (["cottage", "loft", "villa"], "given")],
)
def test_with_two_sources_or_when_given_the_options_hold(setting, images, names, how):
    data, options, run = setting
    options = replace(options, softening=how, assignment_smoothing=0.3)
    sources = Sources.split(images, names, 0.1, seed=0)
    assert choose_softening(data, sources, options, run) == (Softening(0.3, 1.0), [])
    assert not (run.out / "held_out").exists()
