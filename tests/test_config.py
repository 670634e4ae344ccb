# SPDX-License-Identifier: Apache-2.0
"""The parameter files that we ship hold every parameter, with the default of its node."""

import pytest
import yaml

from newfound_nodes.adaptive_classifier import AdaptiveClassifier
from newfound_nodes.curation.node import Curator
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_nodes.place_categorizer import PlaceCategorizer
from newfound_sim.sim_camera import SimCamera
from tests.harness import ROOT


@pytest.mark.parametrize(
    "node", [AdaptiveClassifier, Curator, OpenWorldDetector, PlaceCategorizer, SimCamera]
)
def test_a_parameter_file_shows_every_parameter_with_its_default(node):
    [(pattern, content)] = yaml.safe_load((ROOT / f"config/{node.NAME}.yaml").read_text()).items()
    assert pattern == f"/**/{node.NAME}"
    declared = {p.name: p.default for p in (*node.COMMON_PARAMETERS, *node.PARAMETERS)}
    assert content["ros__parameters"] == declared
