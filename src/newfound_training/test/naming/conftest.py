# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.naming import write_word_vectors
from newfound_training.naming.imagenet import class_names, object_names


@pytest.fixture(scope="session")
def words(tmp_path_factory):
    """Random vectors of the names of ImageNet, of the tests' classes, and of a few others."""
    names = [*class_names(), *object_names(), "circle", "square", "hammer", "teapot"]
    names += ["red", "green", "blue", "cross", "disc", "bar"]
    names = list(dict.fromkeys(name.replace(" ", "_") for name in names))
    vectors = np.random.default_rng(0).normal(size=(len(names), 24))
    folder = tmp_path_factory.mktemp("words")
    write_word_vectors(folder, names, vectors)
    return folder


@pytest.fixture(scope="session")
def stock(tmp_path_factory):
    """A file of names."""
    path = tmp_path_factory.mktemp("stock") / "stock.txt"
    path.write_text("hammer\nteapot\nred square\n")
    return path
