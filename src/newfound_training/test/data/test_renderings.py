# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from PIL import Image

from newfound_core.errors import ConfigError, DataError
from newfound_training.data import open_images
from newfound_training.data.renderings import RENDERINGS, SIDE, render


@pytest.fixture
def photographs(tmp_path):
    """Two classes of five colourful thumbnails."""
    random = np.random.default_rng(0)
    for name in ("ball", "cup"):
        (tmp_path / "train" / name).mkdir(parents=True)
        for number in range(5):
            pixels = random.integers(0, 256, (8, 8, 3), np.uint8).repeat(4, 0).repeat(4, 1)
            Image.fromarray(pixels).save(tmp_path / "train" / name / f"{number}.png")
    return open_images(tmp_path)


def test_every_photograph_is_in_one_rendering(photographs):
    found = render(photographs, ["sketch", "photograph"])
    assert found.domain_names == ("photograph", "sketch")
    assert {s.source.name for s in found.sources} == {s.name for s in photographs.sources}
    assert len(found) == len(photographs)
    counts = [[((found.labels == c) & (found.domains == d)).sum() for d in (0, 1)] for c in (0, 1)]
    assert counts == [[3, 2], [3, 2]]
    for source, label in zip(found.sources, found.labels, strict=True):
        assert found.class_names[label] in source.name


def test_renderings_are_images_of_one_size_that_differ(photographs):
    found = render(photographs, list(RENDERINGS))
    pairs = zip(found.sources, found.domains, strict=True)
    images = {found.domain_names[d]: s.read() for s, d in pairs}
    assert {i.shape for i in images.values()} == {(SIDE, SIDE, 3)}
    assert {i.dtype for i in images.values()} == {np.dtype(np.uint8)}
    for name in ("sketch", "negative"):
        assert np.ptp(images[name].astype(int), axis=2).max() == 0  # no colour
    assert np.unique(images["cartoon"]).size <= 5  # four levels and black
    assert len({s.fingerprint() for s in found.sources}) == len(found)


def test_unknown_renderings_and_too_few_photographs_are_refused(photographs):
    with pytest.raises(ConfigError, match="mosaic"):
        render(photographs, ["mosaic"])
    with pytest.raises(ConfigError, match="different"):
        render(photographs, ["sketch", "sketch"])
    with pytest.raises(DataError, match="fewer than the 2"):
        render(photographs.select([0, 5, 6]), ["sketch", "cartoon"])
