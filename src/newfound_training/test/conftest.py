# SPDX-License-Identifier: Apache-2.0
"""Small image trees, and commands run as a user runs them."""

import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import distributed

from newfound_training.commands import find
from newfound_training.running.distributed import Team
from newfound_training.running.run import COMMON_RESULT_KEYS

COLOURS = {"blue": (30, 60, 200), "green": (40, 180, 60), "red": (200, 40, 40)}


def draw(path: Path, colour: tuple[int, int, int], seed: int, size: int = 40) -> None:
    """A coloured square on a noisy background."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(90, 130, (size, size, 3)).astype(np.uint8)
    top, left = generator.integers(0, size // 2, 2)
    pixels[top : top + size // 2, left : left + size // 2] = colour
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def make_image() -> Callable[..., None]:
    return draw


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded images of a test never meet those of another, or of a user."""
    monkeypatch.setenv("NEWFOUND_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two domains, three classes, eight images each; the second domain is dark."""
    root = tmp_path_factory.mktemp("tree")
    for d, domain in enumerate(("bright", "dark")):
        for c, (name, colour) in enumerate(COLOURS.items()):
            shade = tuple(int(v * (1 - 0.6 * d)) for v in colour)
            for i in range(8):
                draw(root / domain / name / f"{i:02d}.png", shade, 100 * d + 10 * c + i)
    return root


@pytest.fixture(scope="session")
def command() -> Callable[..., list[str]]:
    """The command line of a training command."""

    def line(*arguments: object, processes: int = 1) -> list[str]:
        start = [sys.executable]
        if processes > 1:
            start += [
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={processes}",
            ]
        return [*start, "-m", "newfound_training", *map(str, arguments)]

    return line


@pytest.fixture(scope="session")
def run_command(command: Callable[..., list[str]]) -> Callable[..., subprocess.CompletedProcess]:
    """Runs a training command in a process of its own, with one thread."""

    def run(*arguments: object, processes: int = 1) -> subprocess.CompletedProcess:
        return subprocess.run(
            command(*arguments, processes=processes),
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    return run


@pytest.fixture
def undocumented() -> Callable[..., set[str]]:
    """Keys of a result at any depth that `--help` does not name; `names` are those of the data."""

    def keys(values: object) -> set[str]:
        if isinstance(values, dict):
            return set(values) | {key for value in values.values() for key in keys(value)}
        return {key for v in values for key in keys(v)} if isinstance(values, list) else set()

    def missing(command: str, result: dict, names: Iterable[str] = ()) -> set[str]:
        found = keys({k: v for k, v in result.items() if k != "options"}) - set(names)
        documented = {**COMMON_RESULT_KEYS, **find(command).result_keys}
        words = set(re.findall(r"\w+", " ".join((*documented, *documented.values()))))
        return found - words

    return missing


@pytest.fixture
def in_two_processes(tmp_path_factory) -> Callable[[Callable[[Team], Any]], list[Any]]:
    """Calls a function in each of two processes that work together; what they returned.

    None of a process that ended otherwise. Arrays come back, tensors do not.
    """

    def member(rank: int, folder: Path, work: Callable[[Team], Any]) -> None:
        torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
        distributed.init_process_group(
            "gloo",
            f"file://{folder / 'meeting'}",
            rank=rank,
            world_size=2,
            timeout=timedelta(seconds=250),
        )
        (folder / f"{rank}.pickle").write_bytes(pickle.dumps(work(Team(rank, 2))))
        distributed.barrier()
        distributed.destroy_process_group()

    def run(work: Callable[[Team], Any]) -> list[Any]:
        folder = tmp_path_factory.mktemp("team")
        start = multiprocessing.get_context("fork").Process
        members = [start(target=member, args=(rank, folder, work)) for rank in range(2)]
        for process in members:
            process.start()
        for process in members:
            process.join()
        found = [folder / f"{rank}.pickle" for rank in range(2)]
        return [pickle.loads(f.read_bytes()) if f.exists() else None for f in found]

    return run


@pytest.fixture
def same_weights_after_a_kill(tmp_path, command):
    """Runs a training to its end, and once killed and resumed; the weights must be the same."""

    def compare(*arguments):
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        whole, cut = tmp_path / "whole", tmp_path / "cut"
        subprocess.run(command(*arguments, whole), env=environment, check=True, timeout=280)

        killed = subprocess.Popen(command(*arguments, cut), env=environment)
        deadline = time.monotonic() + 200
        while not (cut / "state.safetensors").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
        assert not (cut / "result.json").exists()
        subprocess.run(
            command(*arguments, cut, "--resume"), env=environment, check=True, timeout=280
        )
        one, other = (load_file(f / "checkpoint" / "model.safetensors") for f in (whole, cut))
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name]), name

    return compare
