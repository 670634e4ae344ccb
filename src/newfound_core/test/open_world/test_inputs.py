# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
from newfound_core.open_world.inputs import Inputs, chunks, class_indices
from newfound_core.open_world.memory import Sample

SAMPLES = [Sample(np.full((1, 1, 3), i, np.uint8), "ab"[i % 2]) for i in range(5)]


def plain(image):
    return torch.from_numpy(image.astype(np.float32))


def noisy(image, generator):
    return plain(image) + float(generator.normal())


def test_plain_batches_are_prepared_one_by_one():
    assert Inputs(plain).batch(SAMPLES)[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]


def test_variation_is_repeatable_by_its_generator():
    inputs = Inputs(plain, vary_training=noisy)
    first, again, other = (
        inputs.batch(SAMPLES, noisy, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_chunks_hold_every_sample_in_order():
    parts = list(chunks(SAMPLES, 2))
    assert [len(part) for part in parts] == [2, 2, 1]
    assert [sample for part in parts for sample in part] == SAMPLES


def test_class_indices_follow_the_labels():
    assert class_indices(SAMPLES, ["b", "a"]).tolist() == [1, 0, 1, 0, 1]
