# SPDX-License-Identifier: Apache-2.0
"""Camera frames lost between two processes at 30 Hz, best effort, counted by sequence.

Hoped for: none with our Fast DDS profile.
"""

from tests import ROOT
from tests.frame_loss import measure


def run(quick: bool) -> list[dict]:
    rows = []
    for width, height in ((640, 480), (1280, 720)):
        for name, profile in (("newfound", str(ROOT / "config/fastdds.xml")), ("default", None)):
            result = measure(profile, seconds=5 if quick else 60, width=width, height=height)
            rows.append({"profile": name, **result})
    return rows
