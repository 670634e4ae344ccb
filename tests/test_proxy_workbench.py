# SPDX-License-Identifier: Apache-2.0
import pytest
from newfound_sim.workbench import DOMAINS

from tests.proxy_workbench import summarise, table


def test_pairs_of_domains_are_averaged_by_what_changed():
    # An accuracy that falls by 0.1 for each changed condition, and by 0.05 more for the camera.
    accuracy = {
        a: {
            b: 0.9 - 0.1 * x.changes(y) - 0.05 * (x.camera != y.camera) for b, y in DOMAINS.items()
        }
        for a, x in DOMAINS.items()
    }
    result = summarise(accuracy)
    rows = result["accuracy_by_changes"]
    assert [rows[n]["pairs"] for n in range(4)] == [12, 48, 60, 24]
    assert rows[0]["mean"] == pytest.approx(0.9)
    assert rows[1]["mean"] == pytest.approx(0.8 - 0.05 / 4)  # 12 of 48 pairs change the camera
    assert rows[3]["mean"] == pytest.approx(0.55)
    assert result["accuracy_by_condition"] == pytest.approx(
        {"illumination": 0.8, "camera": 0.75, "background": 0.8}
    )
    assert "| 3 | 55.0% ± 0.0% | 24 |" in table(result)
