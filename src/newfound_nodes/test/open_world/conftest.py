# SPDX-License-Identifier: Apache-2.0
"""Checkpoints and pictures for tests of the detector."""

import pytest

from newfound_core import testing


@pytest.fixture(scope="session")
def square():
    """A picture of a square of a colour on grey noise, uint8 [48, 64, 3]."""
    return testing.square


@pytest.fixture(scope="session")
def shipped(tmp_path_factory):
    """A tiny open-world checkpoint with a memory, that knows three colours."""
    return testing.tiny_open_world(tmp_path_factory.mktemp("shipped") / "model")


@pytest.fixture
def region_network(tmp_path):
    """A checkpoint of a tiny region network with random weights, unsure of everything."""
    return testing.tiny_regions(tmp_path / "regions")
