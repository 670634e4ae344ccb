# SPDX-License-Identifier: Apache-2.0
"""A few of the kills of `python -m studies.learning_kills`."""

import json
import subprocess
import sys

import pytest

from tests import ROOT


@pytest.mark.slow
def test_knowledge_is_intact_after_kills_at_random_moments(tmp_path):
    command = [
        sys.executable,
        "-m",
        "studies.learning_kills",
        "--kills",
        "4",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["kills"], result["intact"], result["damages"]) == (4, 4, [])
