# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.detection.depth_segments import DepthSegmentsConfig
from newfound_core.detection.fused_proposer import FusedProposer
from newfound_core.errors import ConfigError
from newfound_nodes.open_world.parameters import PARAMETERS, make_proposer

DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS}


def made(**values):
    return make_proposer((DEFAULTS | values).__getitem__)


def test_the_thresholds_of_depth_are_parameters_with_the_same_defaults():
    assert made().config == DepthSegmentsConfig()
    thresholds = {"min_height": 0.1, "min_area": 0.3, "max_area": 0.5}
    assert made(**thresholds).config == DepthSegmentsConfig(**thresholds)


def test_the_pitch_of_the_camera_gives_the_up_direction_if_it_is_known():
    assert made().camera.up is None
    assert made(camera_pitch=0.0).camera.up == pytest.approx((0, -1, 0))
    assert made(camera_pitch=90.0).camera.up == pytest.approx((0, 0, -1), abs=1e-9)


def test_thresholds_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match="min_area"):
        made(min_area=0.5, max_area=0.1)


def test_a_region_network_without_a_model_names_the_parameter_to_set():
    with pytest.raises(ConfigError, match="set proposer_checkpoint"):
        made(proposer="regions", proposer_checkpoint="")
    with pytest.raises(ConfigError, match="fused needs a model"):
        made(proposer="fused", proposer_checkpoint="")


def test_each_proposer_has_a_threshold_of_its_own(region_network):
    regions = made(proposer="regions", proposer_checkpoint=str(region_network))
    assert (regions.min_objectness, made().min_objectness) == (0.5, 0.4)
    assert made(proposer="whole_image").min_objectness == 0


def test_fused_joins_the_segments_of_depth_and_the_regions_of_the_network(region_network):
    fused = made(proposer="fused", proposer_checkpoint=str(region_network), min_height=0.02)
    assert isinstance(fused, FusedProposer)
    assert fused.depth.config.min_height == 0.02
    assert fused.needs_depth
