# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from newfound_training.data import open_images
from newfound_training.openworld.cells import Cell, Cells, chosen_classes
from newfound_training.openworld.options import EvaluateOpenWorldOptions
from newfound_training.openworld.settings import parse_row
from newfound_training.running.files import read_json
from newfound_training.running.run import Run


@pytest.fixture
def cells(small_options, tmp_path):
    options = EvaluateOpenWorldOptions(
        **small_options, choice_classes=2, known_classes=2, memory_size=10
    )
    return Cells(options, Run("test", tmp_path, torch.device("cpu"), 0, "data"))


def test_a_cell_is_kept_in_a_file_of_its_own(cells, tmp_path):
    cell = Cell(parse_row("plain mean: method=ncm"), order=1, seed=2)
    records = cells.records(cell)
    path = tmp_path / "cells" / "plain_mean" / "order1-seed2.json"
    assert read_json(path) == {"row": "plain mean", "steps": records}
    assert cells.records(cell) == records


def test_the_two_kinds_of_classes_have_nothing_in_common(squares):
    images = open_images(squares)
    found = {
        kind: chosen_classes(images, EvaluateOpenWorldOptions(classes=kind, choice_classes=2))
        for kind in ("choice", "reported", "all")
    }
    assert not set(found["choice"]) & set(found["reported"])
    assert sorted(found["choice"] + found["reported"]) == found["all"]


def test_a_seed_gives_random_weights_of_its_own(cells):
    """The frozen baseline sees nothing of the seed but the weights."""
    row = parse_row("ncm")
    first, other = (cells.records(Cell(row, 0, seed))[0]["trade_off"] for seed in (0, 1))
    assert first != other
