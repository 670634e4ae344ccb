# SPDX-License-Identifier: Apache-2.0
"""Switching tasks of a running classifier: images lost, time to the first answer of the new one.

EfficientNet-Lite0 at 224 px with deltas of it, in a process of its own that is sent five images a
second. "loaded" has to be read, applied and warmed up, "held" is ready. Target: no image lost.
"""

import itertools
import statistics
import tempfile
import time
from pathlib import Path

import torch

from newfound_core.classifier import Classifier
from newfound_core.models import load_model
from newfound_core.preprocessing import default_preprocessing
from newfound_core.task_delta.checkpoint import load_base, save_delta
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.layers import convert
from newfound_core.testing import LABELS, usual
from newfound_msgs.msg import Classification
from newfound_msgs.srv import LoadTask
from newfound_runtime.testing import Harness, eventually
from tests.bench._stream import Film, executable, parameters

RATE = 5.0  # Hz; well below what the node can follow, so that a lost image is the switch's doing
NODE = "/adaptive_classifier"
BETWEEN = 1.0  # s between two switches


def run(quick: bool) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        base = usual(Path(folder) / "base")
        root = Path(folder) / "tasks"
        names = [make_task(base, root, seed) for seed in range(2)]
        rows = []
        for backend, adapt in itertools.product(("torch", "onnx"), (False, True)):
            for held in (1, 3):
                rounds = 3 if quick else 10
                rows.append(measure(base, root, names * rounds, backend, adapt=adapt, held=held))
    return rows


def make_task(base: Path, root: Path, seed: int) -> str:
    """A delta with random bits, below the root; its name."""
    config, name = TaskDeltaConfig(), f"task{seed}"
    torch.manual_seed(seed)
    backbone = convert(load_model(base).model.backbone, config, 1e-3)
    save_delta(
        root / name,
        Classifier(backbone, len(LABELS)),
        config,
        load_base(base),
        labels=LABELS,
        preprocessing=default_preprocessing("efficientnet_lite0"),
    )
    return name


def measure(
    base: Path, root: Path, names: list[str], backend: str, *, adapt: bool, held: int
) -> dict:
    """One process: a film, and a switch every second of it."""
    harness = Harness()
    answers: list[tuple[float, str]] = []  # when, and by which model
    try:
        harness.receive(
            Classification,
            f"{NODE}/classification",
            lambda m: answers.append((time.monotonic(), m.model)),
        )
        given = {"checkpoint": base, "base": base, "task_root": root, "held_tasks": held,
                 "backend": backend, "adapt": adapt, "threads": 1}  # fmt: skip
        harness.process(*executable("adaptive_classifier"), *parameters(**given))
        harness.becomes_active(NODE)
        film = Film(harness, "/image", RATE)
        eventually(lambda: len(answers) > 4 * RATE, "the stream runs", timeout=120)
        before = lost(film, answers)
        time.sleep(2 * len(names) * BETWEEN)
        quiet = lost(film, answers) - before
        for name in names[:2]:  # both have served once
            switch(harness, name, answers)
        sent, earlier = film.sent, lost(film, answers)
        waits = [switch(harness, name, answers) for name in names[2:]]
        film.close()
        time.sleep(2.0)
        switching = film.sent - len(answers) - earlier
    finally:
        harness.close()
    return {
        "back end": backend + (" with ONDA" if adapt else ""),
        "task": "held" if held > 1 else "loaded",
        "switches": len(waits),
        "images sent": film.sent - sent,
        "lost": switching,
        "lost as long without": quiet,
        "ms to the first answer": statistics.median(waits) * 1e3,
        "ms at most": max(waits) * 1e3,
    }


def lost(film: Film, answers: list[tuple[float, str]]) -> int:
    """Images without an answer so far, counted when none is under way."""
    count = len(answers)
    eventually(lambda: len(answers) > count, "the next answer")
    return film.sent - len(answers)


def switch(harness: Harness, name: str, answers: list[tuple[float, str]]) -> float:
    """Ask for a task, and wait for its first answer; seconds from one to the other."""
    asked = time.monotonic()
    answer = harness.call(LoadTask, f"{NODE}/load_task", LoadTask.Request(name=name))
    assert answer.result == answer.RESULT_OK, answer.message

    def first() -> float:
        return next((at for at, model in list(answers) if at > asked and model == answer.model), 0)

    waited = eventually(first, f"an answer by {name}") - asked
    time.sleep(BETWEEN)
    return waited
