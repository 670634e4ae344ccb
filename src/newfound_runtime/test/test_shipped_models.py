# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import CheckpointError, WeightsError
from newfound_runtime import shipped_models
from newfound_runtime.shipped_models import find_checkpoint


@pytest.fixture
def share(tmp_path, monkeypatch):
    """A share folder of newfound_bringup with one model; nothing of its name is here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models/bench").mkdir(parents=True)
    monkeypatch.setattr(shipped_models, "get_package_share_directory", lambda _: str(tmp_path))
    return tmp_path


def test_a_bare_name_is_a_shipped_model(share):
    assert find_checkpoint("bench") == share / "models/bench"


def test_a_shipped_model_whose_files_are_links_is_where_they_lead(share, tmp_path):
    (tmp_path / "source/linked").mkdir(parents=True)
    (tmp_path / "source/linked/checkpoint.json").write_text("{}")
    (share / "models/linked").mkdir()
    (share / "models/linked/checkpoint.json").symlink_to(
        tmp_path / "source/linked/checkpoint.json"
    )
    assert find_checkpoint("linked") == tmp_path / "source/linked"


def test_a_folder_here_goes_before_a_shipped_model(share, tmp_path):
    (tmp_path / "bench").mkdir()
    assert find_checkpoint("bench").resolve() == tmp_path / "bench"


def test_a_path_is_taken_as_it_is(share):
    assert str(find_checkpoint("/no/such/folder")) == "/no/such/folder"


def test_an_unknown_name_is_told_with_those_that_are_known(share):
    with pytest.raises(CheckpointError, match=r"nor a shipped model \(bench\)"):
        find_checkpoint("kitchen")


def test_a_published_model_is_found_once_it_is_fetched(share, tmp_path, monkeypatch):
    monkeypatch.setenv("NEWFOUND_MODELS", str(tmp_path / "fetched"))
    with pytest.raises(WeightsError, match=r"newfound_core\.models fetch coco-regions"):
        find_checkpoint("coco-regions")
    (tmp_path / "fetched").mkdir()
    file = tmp_path / "fetched" / "coco-regions.safetensors"
    file.touch()
    assert find_checkpoint("coco-regions") == file


def test_no_name_is_told():
    with pytest.raises(CheckpointError, match="set the parameter checkpoint"):
        find_checkpoint("")
