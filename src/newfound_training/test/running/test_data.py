# SPDX-License-Identifier: Apache-2.0
import shutil

import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_training.data import load_pixels, open_images
from newfound_training.running.data import require_same_data, require_same_images
from newfound_training.running.distributed import Team
from newfound_training.running.run import Run


@pytest.fixture
def run(tmp_path):
    return Run("test", tmp_path / "out", torch.device("cpu"), 0, "data")


@pytest.fixture
def own_tree(tree, tmp_path):
    return shutil.copytree(tree, tmp_path / "tree")


def claim(root, run):
    require_same_images(load_pixels(open_images(root), 16).images, run)


def test_a_run_goes_on_with_the_images_it_began_with(own_tree, run):
    for _ in range(2):
        claim(own_tree, run)


@pytest.mark.parametrize("change", ["add", "remove", "replace", "add a class"])
def test_other_images_are_refused(own_tree, run, make_image, change):
    claim(own_tree, run)
    path = own_tree / "bright" / "red" / "03.png"
    if change == "remove":
        path.unlink()
    else:
        name = {"add": "red/new.png", "replace": "red/03.png", "add a class": "white/0.png"}
        make_image(own_tree / "bright" / name[change], (1, 2, 3), 99)
    with pytest.raises(ConfigError, match=r"files were added, changed or removed"):
        claim(own_tree, run)


def test_a_repaired_image_is_another_set(own_tree, run):
    path = own_tree / "bright" / "red" / "03.png"
    whole = path.read_bytes()
    path.write_bytes(b"cut off")
    claim(own_tree, run)
    path.write_bytes(whole)
    with pytest.raises(ConfigError, match=str(own_tree)):
        claim(own_tree, run)


def test_a_corrupt_image_that_stays_corrupt_makes_no_difference(own_tree, run):
    path = own_tree / "bright" / "red" / "03.png"
    for content in (b"cut off", b"cut off as well"):
        path.write_bytes(content)
        claim(own_tree, run)


def test_each_folder_of_a_run_is_remembered_by_itself(run, tmp_path):
    require_same_data(tmp_path / "a", ["1"], run)
    require_same_data(tmp_path / "b", ["2"], run)
    require_same_data(tmp_path / "a", ["1"], run)
    with pytest.raises(ConfigError, match=str(tmp_path / "b")):
        require_same_data(tmp_path / "b", ["1"], run)


def test_only_the_leading_process_remembers(tmp_path):
    run = Run("test", tmp_path / "out", torch.device("cpu"), 0, "data", Team(1, 2))
    require_same_data(tmp_path, ["1"], run)
    assert not run.out.exists()
