# SPDX-License-Identifier: Apache-2.0
"""The four buildings, a file for each."""

from functools import lru_cache

from newfound_sim.rooms.buildings.cottage import cottage
from newfound_sim.rooms.buildings.institute import institute
from newfound_sim.rooms.buildings.loft import loft
from newfound_sim.rooms.buildings.townhouse import townhouse
from newfound_sim.rooms.names import check
from newfound_sim.rooms.style import Style

_MAKERS = {"cottage": cottage, "institute": institute, "loft": loft, "townhouse": townhouse}


@lru_cache(maxsize=len(_MAKERS))
def style_of(building: str) -> Style:
    """The style of a building, by name."""
    return _MAKERS[check("building", building)]()
