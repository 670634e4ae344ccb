# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.open_world.memory import Sample


@pytest.fixture
def make_samples():
    """Samples of a class with random pixels."""

    def make(label: str, count: int, size: int = 16, seed: int = 0) -> list[Sample]:
        generator = np.random.default_rng(seed)
        images = generator.integers(0, 255, (count, size, size, 3)).astype(np.uint8)
        return [Sample(image, label, f"{label}{i}") for i, image in enumerate(images)]

    return make
