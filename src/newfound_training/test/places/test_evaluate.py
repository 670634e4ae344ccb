# SPDX-License-Identifier: Apache-2.0

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from newfound_training.commands import main
from newfound_training.places.data import PlaceImages
from newfound_training.places.evaluate import TableRuns, run_evaluate_places
from newfound_training.places.options import EvaluationOptions
from newfound_training.places.task import PlaceData
from newfound_training.running.command import Run
from newfound_training.running.distributed import DistributedGroup
from newfound_training.running.options import make_options


@pytest.fixture
def table_runs(images, tiny, make_run) -> TableRuns:
    run = make_run()
    return TableRuns(PlaceData(images, tiny, run), tiny, run)


def test_a_run_is_trained_on_all_but_its_target_and_kept_in_a_file(
    table_runs, tmp_path, monkeypatch
):
    found = table_runs.result("loft", "wbn", 3)
    assert found["sources"] == ["cottage", "villa"]
    assert found["images"] == 24
    assert found["softening"]["smoothing"] == 0.5  # two sources: nothing could be held out
    assert set(found["weights"]["target"]) == {"loft_day", "loft_night"}
    assert [p.name for p in (tmp_path / "run" / "runs" / "loft").iterdir()] == ["wbn_3.json"]
    monkeypatch.setattr("newfound_training.places.evaluate.train", None)
    assert table_runs.result("loft", "wbn", 3) == found


def test_nothing_may_be_held_out_of_the_sources(walks, tiny, make_run):
    whole = replace(tiny, domain_part="whole", iterations=1)  # each domain is one walk
    run = make_run()
    table_runs = TableRuns(PlaceData(PlaceImages(walks.pixels, "whole"), whole, run), whole, run)
    weights = table_runs.result("loft_day", "wbn", 0)["weights"]
    assert set(weights["target"]) == {"loft_day"}
    assert weights["sources"] == {}


def test_an_interrupted_run_goes_on_and_ends_the_same(table_runs, tmp_path, monkeypatch):
    whole = table_runs.result("villa", "bn", 1)
    folder = tmp_path / "run" / "runs" / "villa"
    (folder / "bn_1.json").unlink()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("newfound_training.places.evaluate._accuracies", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table_runs.result("villa", "bn", 1)
    assert (folder / "bn_1" / "state.safetensors").exists()
    assert table_runs.result("villa", "bn", 1) == whole


NO_DATA = "NEWFOUND_DATA is not set: the folder that holds pacs128"


@pytest.fixture
def small_preset(monkeypatch, tiny_weights):
    """Trainings of a second."""
    values = {"backbone": "cifar_resnet20", "weights": tiny_weights, "image_size": 16}
    values |= {"frozen_stages": 2, "batch_size": 12, "iterations": 3, "remembered_variants": 1}
    monkeypatch.setattr("newfound_training.places.options.read_preset", lambda *_: dict(values))


def test_the_whole_table_by_one_command_and_again_from_its_files(
    rooms, tmp_path, small_preset, undocumented
):
    out = tmp_path / "out"
    arguments = ["evaluate-places", "--data", str(rooms), "--out", str(out)]
    arguments += ["--domain-part", "first", "--seeds", "2", "--targets", "loft", "villa"]
    assert main(arguments) == 0
    result = json.loads((out / "result.json").read_text())
    rows = ["bn", "wbn-latent", "wbn-printed", "wbn", "bsf", "bn+onda", "wbn+onda"]
    assert list(result["methods"]) == rows
    assert set(result["targets"]) == {"loft", "villa"}
    assert not undocumented("evaluate-places", result, {"loft", "villa", *result["methods"]})
    assert result["average"]["bsf"]["above_bn"]["pairs"] == 4
    assert result["average"]["bn"]["above_bn"]["mean"] == 0
    assert len(list(out.glob("runs/*/*.json"))) == 2 * 4 * 2
    assert not list(out.glob("runs/*/*/state.safetensors"))
    for name in ("table.md", "differences.png", "domain_weights_loft.png"):
        assert (out / name).stat().st_size

    # One run is lost: only that one is trained again, and the result is the same.
    (out / "result.json").unlink()
    kept = out / "runs" / "loft" / "bn_1.json"
    lost = out / "runs" / "loft" / "wbn_1.json"
    before = kept.stat().st_mtime_ns
    lost.unlink()
    assert main([*arguments, "--resume"]) == 0
    again = json.loads((out / "result.json").read_text())
    assert again["accuracies"] == result["accuracies"]
    assert kept.stat().st_mtime_ns == before


def test_two_processes_share_the_runs_of_a_table(rooms, tmp_path, small_preset, in_two_processes):
    values = {"data": str(rooms), "domain_part": "first", "seeds": 1, "out": ""}
    values |= {"targets": ("loft", "villa"), "methods": ("bn", "wbn")}
    options = make_options(EvaluationOptions, values)

    def work(group, name="shared"):
        run = Run("evaluate-places", tmp_path / name, torch.device("cpu"), 0, str(rooms), group)
        run.out.mkdir(exist_ok=True)
        return run_evaluate_places(options, run).get("accuracies")

    shared, nothing = in_two_processes(work)
    assert nothing is None
    assert shared == work(DistributedGroup(), "alone")
    assert (tmp_path / "shared" / "table.md").stat().st_size


def test_two_domains_are_too_few(rooms, tmp_path, small_preset, capsys):
    arguments = ["--data", str(rooms), "--out", str(tmp_path / "out"), "--domain-part", "last"]
    assert main(["evaluate-places", *arguments]) == 2
    assert "at least three are needed" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif("NEWFOUND_DATA" not in os.environ, reason=NO_DATA)
def test_the_quick_table_on_pacs_shows_the_direction(tmp_path, shared_cache):
    data = Path(os.environ["NEWFOUND_DATA"]) / "pacs128"
    out = tmp_path / "out"
    flags = ["--data", str(data), "--out", str(out), "--quick", "--targets", "photo"]
    assert main(["evaluate-places", *flags]) == 0
    result = json.loads((out / "result.json").read_text())
    average = result["average"]
    assert average["bn"]["accuracy"] > 0.4  # chance is a seventh
    for method in ("wbn-latent", "wbn", "bsf"):
        assert abs(average[method]["above_bn"]["mean"]) < 0.08  # near BN, on either side
