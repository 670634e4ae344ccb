# SPDX-License-Identifier: Apache-2.0
from newfound_sim import sheets


def test_the_sheets_show_what_they_name():
    classes = sheets.classes_sheet(["mug", "key"], each=1, size=24, samples=1)
    assert classes.shape[1] == 3 * 26
    domains = sheets.domains_sheet(32, 24, samples=1)
    assert domains.shape == (3 * (24 + 18), 4 * 34, 3)
    drift = sheets.drift_sheet(32, 24, samples=1)
    assert drift.shape == (2 * (24 + 18), 4 * 34, 3)
