# SPDX-License-Identifier: Apache-2.0
import pytest
from newfound_sim.errors import ScenarioError
from newfound_sim.rooms.names import domain_name


def test_a_domain_is_a_building_under_a_light():
    assert domain_name("loft", "night") == "loft_night"


@pytest.mark.parametrize(("building", "lighting"), [("castle", "night"), ("loft", "dusk")])
def test_an_unknown_name_is_refused_with_the_known_ones(building, lighting):
    with pytest.raises(ScenarioError, match=r"unknown .* '(castle|dusk)': choose one of"):
        domain_name(building, lighting)
