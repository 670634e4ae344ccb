# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from torch import nn


def _network(seed=0):
    """A convolution, a linear layer, BN after both, and dropout in between."""
    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.5), nn.Linear(16, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3),
    )  # fmt: skip
    with torch.no_grad():
        for _ in range(20):
            network(torch.randn(16, 3, 8, 8))
    return network.eval()


def _shifted(count, seed=0, size=8, mean=1.5, std=2.0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, size, size, generator=generator) * std + mean for _ in range(count)]


@pytest.fixture
def make_network():
    return _network


@pytest.fixture
def network():
    return _network()


@pytest.fixture
def shifted_frames():
    return _shifted
