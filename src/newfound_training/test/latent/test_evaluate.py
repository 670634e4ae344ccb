# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

from newfound_training.commands import main
from newfound_training.latent.evaluate import purity
from newfound_training.latent.options import ROWS
from newfound_training.latent.tables import markdown, summary


def test_every_row_is_measured_and_a_second_run_measures_nothing(
    tree, checkpoint, tmp_path, undocumented
):
    given = ("evaluate-latent", "--data", tree, "--domains", "bright", "--checkpoint", checkpoint,
             "--mixtures", "bright+dark", "--seeds", 2, "--iterations", 2, "--batch-size", 12,
             "--branch-start-steps", 2, "--out", tmp_path / "out")  # fmt: skip
    arguments = [str(value) for value in given]
    assert main(arguments) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert set(found["summary"]) == set(ROWS)
    assert len(found["runs"]) == 2 * len(ROWS)
    assert undocumented("evaluate-latent", found, ROWS) == set()
    assert (tmp_path / "out" / "differences.png").stat().st_size > 5000
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()}
    assert main([*arguments, "--resume"]) == 0
    assert {path: path.stat().st_mtime_ns for path in times} == times


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--mixtures", "bright+bright"), "names a domain twice"),
        (("--mixtures", "bright+night"), "no domain 'night'"),
        (("--mixtures", "bright+dark", "--methods", "magic"), "unknown methods"),
        (("--mixtures", "bright+dark", "--held-out", "1.5"), "held_out"),
    ],
)
def test_what_cannot_be_evaluated_is_named(tree, checkpoint, tmp_path, capsys, more, message):
    given = (
        "evaluate-latent",
        "--data",
        tree,
        "--checkpoint",
        checkpoint,
        "--out",
        tmp_path / "o",
    )
    assert main([str(value) for value in (*given, *more)]) in (1, 2)
    assert message in capsys.readouterr().err


def test_purity_counts_the_most_frequent_domain_of_each_cluster():
    assert purity(np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 0, 0])) == pytest.approx(0.8)


def test_differences_are_paired_by_mixture_and_seed():
    rows = [
        {"method": m, "mixture": x, "seed": s, "seen": 0.5, "unseen": base + gain * (m == "mda")}
        for x, base, gain in (("a", 0.2, 0.1), ("b", 0.7, 0.3))
        for s in (0, 1)
        for m in ("dial", "mda")
    ]
    found = summary(rows, ("dial", "mda"))
    above = found["mda"]["above_dial"]["unseen"]
    assert above["differences"] == pytest.approx([0.1, 0.1, 0.3, 0.3])
    assert above["mixtures"]["mean"] == pytest.approx(0.2)
    assert above["mixtures"]["pairs"] == 2
    assert "+20.0" in markdown(found)
