# SPDX-License-Identifier: Apache-2.0
"""A frozen network and a linear classifier on it: a quick measure of what data can teach."""

from pathlib import Path

import cv2
import numpy as np
import torch
from tqdm import tqdm

from newfound_core.backbones import build_backbone


@torch.no_grad()
def features(paths: list[Path], size: int, title: str) -> np.ndarray:
    """One row of features for each picture."""
    network = build_backbone("efficientnet_lite0", weights="imagenet").eval()
    rows = []
    for start in tqdm(range(0, len(paths), 32), desc=title, unit="batch"):
        pictures = [_read(path, size) for path in paths[start : start + 32]]
        batch = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
        rows.append(network((batch.float() - 127) / 128).numpy())
    return np.concatenate(rows)


def _read(path: Path, size: int) -> np.ndarray:
    picture = cv2.imread(str(path))[..., ::-1]
    return cv2.resize(picture, (size, size), interpolation=cv2.INTER_LINEAR)


def train_linear(x: np.ndarray, y: np.ndarray, classes: int, decay: float = 1e-2):
    """Multinomial logistic regression; returns a function from features to labels."""
    mean, std = x.mean(axis=0), x.std(axis=0) + 1e-3
    inputs = torch.from_numpy((x - mean) / std).float()
    targets = torch.from_numpy(y).long()
    weight = torch.zeros(x.shape[1], classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=150, line_search_fn="strong_wolfe")

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(inputs @ weight + bias, targets)
        loss = loss + decay * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(step)
    kernel, offset = weight.detach().numpy(), bias.detach().numpy()
    return lambda z: ((z - mean) / std @ kernel + offset).argmax(axis=1)
