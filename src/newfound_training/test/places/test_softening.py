# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from newfound_training.places.data import Sources
from newfound_training.places.models import build_place_model
from newfound_training.places.softening import (
    AS_PRINTED,
    CANDIDATES,
    Softening,
    choose_softening,
    soften,
)
from newfound_training.places.task import PlaceData


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
    monkeypatch.setattr("newfound_training.places.softening.train", None)
    assert choose_softening(data, sources, options, run) == (best, listed)


def test_a_training_for_the_choice_never_sees_the_source_it_is_tested_on(
    setting, images, monkeypatch
):
    data, options, run = setting
    seen = []
    monkeypatch.setattr(
        "newfound_training.places.softening.train",
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
