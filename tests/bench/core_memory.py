# SPDX-License-Identifier: Apache-2.0
"""Resident memory of ONDA over a long stream, and time per frame at its beginning and end.

A small network on 32 px frames, all guards on, both estimators. Target: flat.
"""

import statistics
import time

import psutil
import torch

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.onda import Onda, OndaConfig


def run(quick: bool) -> list[dict]:
    total = 1_000 if quick else 10_000
    checkpoints = [total // 10, total // 2, total]
    rows = []
    for estimator in ("streaming", "batch"):
        for guards in (False, True):
            network = Classifier(build_backbone("cifar_resnet20"), 10).eval()
            balanced = guards and estimator == "batch"
            config = OndaConfig.thesis(estimator=estimator, balanced=balanced, alarm=guards)
            onda, memory, seconds = Onda(network, config), [], []
            generator = torch.Generator().manual_seed(3)
            for number in range(1, total + 1):
                frame = torch.randn(3, 32, 32, generator=generator)
                start = time.perf_counter()
                onda.predict(frame)
                seconds.append(time.perf_counter() - start)
                if number in checkpoints:
                    memory.append(psutil.Process().memory_info().rss / 2**20)
            tenth = total // 10
            early, late = (
                statistics.mean(s) for s in (seconds[tenth : 2 * tenth], seconds[-tenth:])
            )
            row = {"estimator": estimator, "guards": guards, "frames": total}
            row |= {f"MB at {c}": m for c, m in zip(checkpoints, memory, strict=True)}
            rows.append(
                row | {"growth MB": memory[-1] - memory[0], "late/early time": late / early}
            )
    return rows
