# SPDX-License-Identifier: Apache-2.0
"""Small image trees, and commands run as a user runs them."""

import logging
import multiprocessing
import os
import pickle
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import distributed

from newfound_training.commands import find, main
from newfound_training.running.command import COMMON_RESULT_KEYS
from newfound_training.running.distributed import DistributedGroup

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
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("session_cache")


@pytest.fixture
def shared_cache(own_cache, session_cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real data sets are decoded once for all tests that ask for this."""
    monkeypatch.setenv("NEWFOUND_CACHE", str(session_cache))


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


# Tests here fork. The first backward pass of a process decides whether its forks may have one, and
# after an ONNX export or torch.compile it decides against them: so it is made at once.
torch.ones((), requires_grad=True).backward()


class Finished(NamedTuple):
    """How the processes of a command ended."""

    returncode: int
    stderr: str


def _run_in_child(arguments: list[str], environment: dict[str, str], log: Path) -> None:
    """Run a command as a new process would: one thread, its own log, nothing of pytest."""
    os.environ |= environment | {"OMP_NUM_THREADS": "1"}
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork, nor do OpenCV's
    cv2.setNumThreads(0)
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    logging.getLogger().handlers.clear()
    sys.exit(main(arguments))


@pytest.fixture
def start_command(tmp_path_factory) -> Callable[..., tuple[list, Path]]:
    """Start a command in forked processes, with the environment that torchrun would give them.

    A fork has torch imported already, which costs a fresh interpreter ten seconds on two cores.
    """

    def start(*arguments: object, processes: int = 1) -> tuple[list, Path]:
        log = tmp_path_factory.mktemp("command") / "stderr"
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        started = []
        for rank in range(processes):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
            environment = shared | own if processes > 1 else {}
            process = multiprocessing.get_context("fork").Process(
                target=_run_in_child, args=([*map(str, arguments)], environment, log)
            )
            process.start()
            started.append(process)
        return started, log

    return start


@pytest.fixture
def run_command(start_command) -> Callable[..., Finished]:
    """Run a command in processes of its own and wait for them."""

    def run(*arguments: object, processes: int = 1) -> Finished:
        started, log = start_command(*arguments, processes=processes)
        for process in started:
            process.join(280)
        codes = [process.exitcode for process in started]
        return Finished(next((c for c in codes if c != 0), 0) or 0, log.read_text())

    return run


@pytest.fixture
def kill_command(start_command) -> Callable[..., None]:
    """Start a command and kill it with SIGKILL as soon as a file is there."""

    def kill(path: Path, *arguments: object) -> None:
        (process,), log = start_command(*arguments)
        while not path.exists() and process.is_alive():
            time.sleep(0.002)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, log.read_text()
        assert path.exists()

    return kill


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
def in_two_processes(tmp_path_factory) -> Callable[[Callable[[DistributedGroup], Any]], list[Any]]:
    """Calls a function in each of two processes of a group; what they returned.

    None of a process that ended otherwise. Arrays come back, tensors do not.
    """

    def member(rank: int, folder: Path, work: Callable[[DistributedGroup], Any]) -> None:
        torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
        distributed.init_process_group(
            "gloo",
            f"file://{folder / 'meeting'}",
            rank=rank,
            world_size=2,
            timeout=timedelta(seconds=250),
        )
        (folder / f"{rank}.pickle").write_bytes(pickle.dumps(work(DistributedGroup(rank, 2))))
        distributed.barrier()
        distributed.destroy_process_group()

    def run(work: Callable[[DistributedGroup], Any]) -> list[Any]:
        folder = tmp_path_factory.mktemp("group")
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
def same_weights_after_a_kill(tmp_path, run_command, kill_command):
    """Run a training to its end, and once killed and resumed; the weights must be the same."""

    def compare(*arguments):
        whole, cut = tmp_path / "whole", tmp_path / "cut"
        assert run_command(*arguments, whole).returncode == 0
        kill_command(cut / "state.safetensors", *arguments, cut)
        assert not (cut / "result.json").exists()
        assert run_command(*arguments, cut, "--resume").returncode == 0
        one, other = (load_file(f / "checkpoint" / "model.safetensors") for f in (whole, cut))
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name]), name

    return compare
