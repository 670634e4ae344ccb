# SPDX-License-Identifier: Apache-2.0
"""Proposals on a real disk, and a real process killed while it writes them."""

import json
import signal
import subprocess
import sys
import time

import pytest

from newfound_nodes.curation.proposal import Candidate, Proposal, ProposalState
from newfound_nodes.curation.proposal_queue import ProposalStore

FULL = Proposal(
    "u1", ProposalState.SUBMITTING, 12.5, (Candidate("téapot", 0.5, "library"),), "téapot",
    "person", "teapot-1-0001", ("a.jpg", "b.jpg"), 1, "000001", 2, "why",
)  # fmt: skip

WRITER = """
import itertools, sys
from pathlib import Path
from newfound_nodes.curation.proposal import Proposal, ProposalState
from newfound_nodes.curation.proposal_queue import ProposalStore

store = ProposalStore(Path(sys.argv[1]))
for number in itertools.count():
    message = "x" * (number % 5000)
    store.save(Proposal("u1", ProposalState.WAITING, float(number), message=message))
    print(number, flush=True)
"""


@pytest.fixture
def store(tmp_path):
    made = ProposalStore(tmp_path / "state")
    yield made
    made.close()


def test_a_proposal_is_read_back_as_it_was(store):
    store.save(FULL)
    store.save_crop("u1", b"picture")
    assert store.load() == ([FULL], [])
    assert store.crop("u1") == b"picture"
    store.remove("u1")
    assert store.load() == ([], [])
    assert store.crop("u1") == b""


@pytest.mark.parametrize("change", [{"format": 3}, {"id": "u2"}, {"state": "lost"}, {"new": 1}])
def test_a_file_that_is_not_ours_is_set_aside(store, change):
    store.save(FULL)
    path = store.folder / "u1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    found, warnings = store.load()
    assert (found, len(warnings)) == ([], 1)
    assert (store.folder / "u1.damaged").exists()


def test_a_process_killed_while_it_writes_leaves_a_whole_file(tmp_path):
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout.readline() == "0\n"
        time.sleep(0.05)
        writer.send_signal(signal.SIGKILL)
        written = [int(line) for line in writer.communicate()[0].split()]
        store = ProposalStore(tmp_path)
        [found], warnings = store.load()
        store.close()
        assert warnings == []
        assert found.since >= max(written, default=0)
