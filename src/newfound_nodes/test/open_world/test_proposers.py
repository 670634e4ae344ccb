# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.detection.depth_relief import DepthReliefConfig
from newfound_core.errors import ConfigError
from newfound_nodes.open_world.parameters import PARAMETERS
from newfound_nodes.open_world.proposers import make_proposer

DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS}


def made(**values):
    return make_proposer((DEFAULTS | values).__getitem__)


def test_the_thresholds_of_depth_are_parameters_with_the_same_defaults():
    assert made().config == DepthReliefConfig()
    thresholds = {"min_relief": 0.1, "plane_tolerance": 0.2, "min_area": 0.3, "max_area": 0.5}
    assert made(**thresholds).config == DepthReliefConfig(**thresholds)


def test_thresholds_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match="min_area"):
        made(min_area=0.5, max_area=0.1)
