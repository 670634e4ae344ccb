# SPDX-License-Identifier: Apache-2.0

from dataclasses import replace

import numpy as np
import torch

from newfound_core.onda import OndaConfig
from newfound_training.online.options import OnlineOptions
from newfound_training.online.streams import sweep_streams
from newfound_training.online.tables import sweep_summary


def test_orders_are_shufflings_that_differ_by_number_and_not_by_method(target):
    assert sorted(target.order(0)) == list(range(24))
    assert not np.array_equal(target.order(0), target.order(1))
    np.testing.assert_array_equal(target.order(1), replace(target).order(1))
    twice = replace(target, passes=2).order(0)
    assert sorted(twice) == sorted([*range(24), *range(24)])
    assert not np.array_equal(twice[:24], twice[24:])


def test_source_only_is_the_models_own_prediction(target, everything):
    with torch.no_grad():
        predicted = target.loaded.model(target.frames(everything)).argmax(1).numpy()
    np.testing.assert_array_equal(target.bounds()["source_only"], predicted == target.labels)


def test_what_was_computed_is_not_computed_again(target, monkeypatch):
    first = target.stream(OndaConfig.thesis(5), 0)
    bounds = target.bounds()
    monkeypatch.setattr("newfound_training.online.streams.replay", None)
    monkeypatch.setattr("newfound_training.online.streams.predict_with", None)
    np.testing.assert_array_equal(target.stream(OndaConfig.thesis(5), 0), first)
    np.testing.assert_array_equal(target.bounds()["re_estimated"], bounds["re_estimated"])


def test_streams_of_other_settings_do_not_get_mixed_up(target):
    for config in (
        OndaConfig.thesis(5),
        OndaConfig.thesis(6),
        OndaConfig.thesis(5, 0.2),
        OndaConfig.thesis(5, 0.1, "streaming"),
    ):
        target.stream(config, 0)
    target.stream(OndaConfig.thesis(5), 1)
    assert len(list(target.folder.rglob("*order*.json"))) == 5


def test_one_option_varies_while_the_other_keeps_its_value(target):
    options = OnlineOptions(
        frames_per_update=5, sweep_momentum=(0.1, 0.5), sweep_frames=(4, 5), sweep_orders=2
    )
    streams = sweep_streams(target, options)
    assert list(streams["momentum"]) == [0.1, 0.5]
    assert list(streams["frames_per_update"]) == [4, 5]
    assert all(len(runs) == 2 for values in streams.values() for runs in values.values())
    same = zip(streams["momentum"][0.1], streams["frames_per_update"][5], strict=True)
    assert all((a == b).all() for a, b in same)
    assert set(sweep_summary(streams)["momentum"]) == {"0.1", "0.5"}
