# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.detection.depth_relief import DepthReliefConfig
from newfound_core.errors import ConfigError
from newfound_nodes.open_world.parameters import PARAMETERS, make_proposer

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


def test_a_region_network_without_a_model_names_the_parameter_to_set():
    with pytest.raises(ConfigError, match="set proposer_checkpoint"):
        made(proposer="rpn")


def test_each_proposer_has_a_threshold_of_its_own(region_network):
    rpn = made(proposer="rpn", proposer_checkpoint=str(region_network))
    assert (rpn.min_objectness, made().min_objectness) == (0.5, 0.3)
    assert made(proposer="whole_image").min_objectness == 0
