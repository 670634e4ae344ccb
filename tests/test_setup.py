# SPDX-License-Identifier: Apache-2.0
"""The set-up tells what is missing in one line, and does nothing twice."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.slow_tests import slow_tests
from tests import ROOT

TOOLS = [
    "bash",
    "cat",
    "cut",
    "dirname",
    "env",
    "flock",
    "ln",
    "make",
    "mkdir",
    "mv",
    "readlink",
    "sha256sum",
    "touch",
    "cmake",
    "c++",
]


@pytest.fixture
def machine(tmp_path):
    """Run the set-up on a machine that has just these commands."""

    def run(*missing: str, **environment: str) -> subprocess.CompletedProcess:
        commands = tmp_path / "bin"
        commands.mkdir()
        for tool in set(TOOLS) - set(missing):
            (commands / tool).symlink_to(shutil.which(tool))
        if "python3" not in missing:
            (commands / "python3").symlink_to(getattr(sys, "_base_executable", sys.executable))
        return subprocess.run(
            [str(ROOT / "scripts/setup.sh")],
            env={"PATH": str(commands), "HOME": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("missing", "package"), [("cmake", "cmake"), ("c++", "g++"), ("python3", "python3.12")]
)
def test_a_missing_tool_is_named_with_its_package_in_one_line(machine, missing, package):
    result = machine(missing)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert f"'{package}'" in result.stderr
    assert "apt install" in result.stderr


def test_another_ros_than_jazzy_is_refused(machine):
    result = machine(ROS_DISTRO="humble")
    assert result.returncode == 1
    assert "humble" in result.stderr


def test_an_unsupported_python_is_refused(machine, tmp_path):
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    result = machine(PYTHON=str(old))
    assert "no Python 3.11 or 3.12" in result.stderr


def test_a_second_set_up_changes_nothing():
    before = (ROOT / ".venv").readlink()
    result = subprocess.run(
        [str(ROOT / "scripts/setup.sh")], capture_output=True, text=True, check=True
    )
    assert (result.stdout, result.stderr) == ("", "")
    assert (ROOT / ".venv").readlink() == before


def test_the_rewrite_of_cmake_paths_is_idempotent_and_leaves_nothing(tmp_path):
    file = tmp_path / "share/some_msgs/cmake/export.cmake"
    file.parent.mkdir(parents=True)
    builder = "/opt/python/cp311-cp311"
    file.write_text(
        f'set(a "{builder}/lib/python3.11/site-packages/numpy/_core/include;'
        f'{builder}/include/python3.11")\n'
    )
    script = [sys.executable, str(ROOT / "scripts/relocate_cmake.py"), str(tmp_path)]
    subprocess.run(script, check=True)
    once = file.read_text()
    assert "/opt/python" not in once
    assert all(Path(p).is_dir() for p in once.split('"')[1].split(";"))
    subprocess.run(script, check=True)
    assert file.read_text() == once


def test_env_sh_says_what_to_do_before_anything_is_built(tmp_path):
    shutil.copy(ROOT / "env.sh", tmp_path)
    result = subprocess.run(
        ["bash", "-c", f"source {tmp_path}/env.sh"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "make build" in result.stderr


def test_the_list_of_slow_tests_is_made_from_durations():
    log = ["0.60s call     tests/a.py::test_x[1]", "0.50s setup    tests/a.py::test_x[2]",
           "0.90s call     tests/a.py::test_y", "1 passed"]  # fmt: skip
    assert slow_tests(log, 1.0) == ["tests/a.py::test_x"]
