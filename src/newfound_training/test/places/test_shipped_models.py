# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from newfound_core.models import load_model

MODELS = Path(__file__).parents[4] / "models"
PLACES = ("bathroom", "bedroom", "corridor", "kitchen", "living_room", "office")


@pytest.mark.parametrize(("name", "domains"), [("sim_rooms_wbn", 3), ("sim_rooms_bn", 0)])
def test_a_shipped_model_loads_and_names_a_place(name, domains):
    loaded = load_model(MODELS / name, name.removeprefix("sim_rooms_"))
    assert loaded.labels == PLACES
    image = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
    found = loaded.model.categorize(loaded.prepare([image]))
    assert found.probabilities.sum().item() == pytest.approx(1, abs=1e-5)
    assert found.domain_weights.shape == (1, domains)
    assert "Never trained on: townhouse" in (MODELS / name / "README.md").read_text()
