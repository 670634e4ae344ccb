# SPDX-License-Identifier: Apache-2.0
from dataclasses import fields

from newfound_core.onda import OndaConfig
from newfound_core.onda.config import LIVE_OPTIONS
from newfound_nodes.adaptation.interface import NAMES, PARAMETERS, options

DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS}


def test_every_option_of_onda_is_a_parameter_with_the_same_default():
    assert OndaConfig(**options(DEFAULTS)) == OndaConfig()
    # Scale and bias are refined by the classifier alone, whose own parameter that is.
    assert {*options(DEFAULTS), "refine_rate"} == {field.name for field in fields(OndaConfig)}


def test_those_parameters_are_live_that_onda_can_change_while_it_runs():
    live = {parameter.name for parameter in PARAMETERS if parameter.live}
    assert live - {"freeze"} == LIVE_OPTIONS


def test_a_range_refuses_what_onda_would_refuse():
    ranges = {p.name: (p.minimum, p.maximum) for p in PARAMETERS}
    assert ranges["frames_per_update"][0] == 2
    assert 0 < ranges["momentum"][0] < 1e-3
    assert ranges["momentum"][1] == 1


def test_freezing_is_no_option_of_onda():
    assert options({"freeze": True, "momentum": 0.2}) == {"momentum": 0.2}
    assert "freeze" not in NAMES
