# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from newfound_training.places.cells import Cells
from newfound_training.places.data import PlaceImages
from newfound_training.places.task import PlaceData


@pytest.fixture
def cells(images, tiny, make_run) -> Cells:
    run = make_run()
    return Cells(PlaceData(images, tiny, run), tiny, run)


def test_a_cell_is_trained_on_all_but_its_target_and_kept_in_a_file(cells, tmp_path, monkeypatch):
    cell = cells.cell("loft", "wbn", 3)
    assert cell["sources"] == ["cottage", "villa"]
    assert cell["images"] == 24
    assert cell["softening"]["smoothing"] == 0.5  # two sources: nothing could be held out
    assert set(cell["weights"]["target"]) == {"loft_day", "loft_night"}
    assert [p.name for p in (tmp_path / "run" / "cells" / "loft").iterdir()] == ["wbn_3.json"]
    monkeypatch.setattr("newfound_training.places.cells.train", None)
    assert cells.cell("loft", "wbn", 3) == cell


def test_nothing_may_be_held_out_of_the_sources(walks, tiny, make_run):
    whole = replace(tiny, domain_part="whole", iterations=1)  # each domain is one walk
    run = make_run()
    cells = Cells(PlaceData(PlaceImages(walks.pixels, "whole"), whole, run), whole, run)
    weights = cells.cell("loft_day", "wbn", 0)["weights"]
    assert set(weights["target"]) == {"loft_day"}
    assert weights["sources"] == {}


def test_an_interrupted_cell_goes_on_and_ends_the_same(cells, tmp_path, monkeypatch):
    whole = cells.cell("villa", "bn", 1)
    folder = tmp_path / "run" / "cells" / "villa"
    (folder / "bn_1.json").unlink()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("newfound_training.places.cells._accuracies", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cells.cell("villa", "bn", 1)
    assert (folder / "bn_1" / "state.safetensors").exists()
    assert cells.cell("villa", "bn", 1) == whole
