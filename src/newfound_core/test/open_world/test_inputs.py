# SPDX-License-Identifier: Apache-2.0

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from newfound_core.errors import ConfigError
from newfound_core.open_world.inputs import Inputs, MemoryBatchSampler, chunks, class_indices
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


def epoch(new, memory, number=0, **options):
    return list(MemoryBatchSampler(new, memory, **options).batches(number))


def test_forty_per_cent_of_every_batch_come_from_the_memory():
    batches = epoch(300, 50, batch_size=10)
    assert {sum(i >= 300 for i in batch) for batch in batches} == {4}
    assert {len(batch) for batch in batches} == {10}


def test_an_epoch_shows_each_new_sample_once_and_the_memory_evenly():
    shown = Counter(i for batch in epoch(300, 50, batch_size=10) for i in batch)
    assert all(shown[i] == 1 for i in range(300))
    assert {shown[300 + i] for i in range(50)} == {4}


def test_the_same_seed_and_epoch_give_the_same_batches_and_others_do_not():
    again = epoch(30, 20, 3, batch_size=8, seed=1)
    assert epoch(30, 20, 3, batch_size=8, seed=1) == again
    assert epoch(30, 20, 4, batch_size=8, seed=1) != again
    assert epoch(30, 20, 3, batch_size=8, seed=2) != again


def test_a_memory_smaller_than_its_part_of_a_batch_is_repeated():
    batch = epoch(6, 1, batch_size=10)[0]
    assert batch.count(6) == 4


def test_without_a_memory_batches_are_all_new():
    assert sorted(i for batch in epoch(20, 0, batch_size=8) for i in batch) == list(range(20))


def test_without_new_samples_an_epoch_goes_through_the_memory():
    assert sorted(i for batch in epoch(0, 20, batch_size=8) for i in batch) == list(range(20))


def test_nothing_at_all_gives_no_batches():
    assert epoch(0, 0, batch_size=8) == []


def test_no_batch_is_left_with_a_single_sample():
    assert min(len(batch) for batch in epoch(65, 0, batch_size=64)) == 32


@given(
    st.integers(0, 90), st.integers(0, 90), st.integers(1, 40), st.sampled_from([0.0, 0.4, 0.9])
)
def test_any_sizes_work(new, memory, batch_size, share):
    sampler = MemoryBatchSampler(new, memory, batch_size=batch_size, memory_share=share)
    batches = list(sampler.batches(0))
    assert len(batches) == len(sampler)
    assert all(0 < len(batch) <= batch_size for batch in batches)
    assert set(range(new or memory)) <= {i for batch in batches for i in batch}
    assert all(0 <= i < new + memory for batch in batches for i in batch)


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"batch_size": 4, "memory_share": 1.0}])
def test_senseless_options_are_refused(options):
    with pytest.raises(ConfigError):
        MemoryBatchSampler(1, 1, **options)
