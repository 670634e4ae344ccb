# SPDX-License-Identifier: Apache-2.0
"""Names of place categories, buildings and lightings."""

from collections.abc import Sequence

from newfound_sim.errors import ScenarioError

CATEGORIES = ("bathroom", "bedroom", "corridor", "kitchen", "living_room", "office")
BUILDINGS = ("cottage", "institute", "loft", "townhouse")
LIGHTINGS = ("cloudy", "night", "sunny")


def domain_name(building: str, lighting: str) -> str:
    """The name of a domain: a building under a light."""
    return f"{check('building', building)}_{check('lighting', lighting)}"


def check(kind: str, name: str) -> str:
    """Return the name if the simulator has a building, category or lighting of that name."""
    known: dict[str, Sequence[str]] = {
        "building": BUILDINGS,
        "category": CATEGORIES,
        "lighting": LIGHTINGS,
    }
    if name not in known[kind]:
        raise ScenarioError(f"unknown {kind} '{name}': choose one of {', '.join(known[kind])}")
    return name
