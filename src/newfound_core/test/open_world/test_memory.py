# SPDX-License-Identifier: Apache-2.0

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound_core.errors import ConfigError, DataError
from newfound_core.open_world.memory import Memory, MemoryConfig, Sample, hold_out, select

PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


def sample(label="cup", held_out=False):
    return Sample(PIXELS, label, held_out=held_out)


def test_training_and_held_out_samples_are_kept_apart():
    memory = Memory(samples={"cup": [sample(), sample(held_out=True)], "fork": [sample("fork")]})
    assert len(memory) == 3
    assert [s.label for s in memory.training()] == ["cup", "fork"]
    assert [s.label for s in memory.held_out()] == ["cup"]


def test_more_samples_than_its_size_are_refused():
    with pytest.raises(DataError, match="3 samples do not fit a memory of 2"):
        Memory(MemoryConfig(size=2), {"cup": [sample()] * 3})


def test_a_sample_under_the_wrong_class_is_refused():
    with pytest.raises(DataError, match="holds samples of another class"):
        Memory(samples={"fork": [sample("cup")]})


def test_forgetting_a_class_leaves_the_others():
    memory = Memory(samples={"cup": [sample()], "fork": [sample("fork")]})
    assert memory.without("cup").labels == ["fork"]
    assert memory.labels == ["cup", "fork"]


def test_an_encoded_image_is_decoded_to_rgb():
    content = cv2.imencode(".png", PIXELS[:, :, ::-1])[1].tobytes()
    np.testing.assert_array_equal(Sample(content, "cup").pixels(), PIXELS)


def test_an_image_that_cannot_be_decoded_is_named():
    with pytest.raises(DataError, match=r"class 'cup' .* cannot be decoded"):
        Sample(b"not an image", "cup").pixels()


@pytest.mark.parametrize("options", [{"size": 0}, {"held_out_share": 1.0}])
def test_senseless_options_are_refused(options):
    with pytest.raises(ConfigError):
        MemoryConfig(**options)


IMAGE = np.zeros((1, 1, 3), np.uint8)


def many(label, count, held_out=False):
    return [Sample(IMAGE, label, f"{label} {i}", held_out) for i in range(count)]


def generator():
    return np.random.default_rng(0)


def test_a_fifth_of_each_class_is_held_out_before_training():
    new = many("cup", 50) + many("fork", 10)
    training, held_out = hold_out(new, MemoryConfig(2000, 0.2), 2, generator())
    assert sum(s.label == "cup" for s in held_out) == 10
    assert sum(s.label == "fork" for s in held_out) == 2
    assert {s.source for s in training} | {s.source for s in held_out} == {s.source for s in new}
    assert all(s.held_out for s in held_out)
    assert not any(s.held_out for s in training)


def test_no_more_is_held_out_than_a_fifth_of_the_share_that_will_be_kept():
    _, held_out = hold_out(many("cup", 300), MemoryConfig(200, 0.2), 4, generator())
    assert len(held_out) == 10  # of 50


def test_a_single_sample_is_trained_on():
    training, held_out = hold_out(many("cup", 1), MemoryConfig(10, 0.2), 1, generator())
    assert (len(training), len(held_out)) == (1, 0)


def test_the_samples_nearest_to_the_mean_are_kept_in_their_order():
    training = many("cup", 5)
    memory = select(
        MemoryConfig(3, 0.0),
        ["cup"],
        training,
        [5.0, 1.0, np.nan, 2.0, 3.0],
        held_out=[],
        generator=generator(),
    )
    assert [s.source for s in memory.samples("cup")] == ["cup 1", "cup 3", "cup 4"]


def test_every_class_has_an_equal_share_and_a_fifth_of_it_held_out():
    labels = ["cup", "fork", "lamp"]
    training = [s for label in labels for s in many(label, 40)]
    held_out = [s for label in labels for s in many(label, 20, held_out=True)]
    memory = select(
        MemoryConfig(62, 0.2),
        labels,
        training,
        [1.0] * 120,
        held_out=held_out,
        generator=generator(),
    )
    assert [len(memory.samples(label)) for label in labels] == [20, 20, 20]
    assert [sum(s.held_out for s in memory.samples(label)) for label in labels] == [4, 4, 4]


def test_more_classes_than_samples_are_a_clear_error():
    with pytest.raises(DataError, match="memory of 2 samples cannot hold 3 classes"):
        hold_out(many("cup", 5), MemoryConfig(2), 3, generator())


def test_a_held_out_sample_among_the_trained_ones_is_refused():
    with pytest.raises(DataError, match="held-out sample"):
        select(
            MemoryConfig(),
            ["cup"],
            many("cup", 1, held_out=True),
            [0.0],
            held_out=[],
            generator=generator(),
        )


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(8, 60),
    share=st.sampled_from([0.0, 0.2, 0.5]),
    steps=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=2), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_over_any_steps_the_size_holds_and_no_sample_changes_sides(size, share, steps, seed):
    config, labels, random = MemoryConfig(size, share), [], np.random.default_rng(seed)
    trained, kept_out, memory = set(), set(), None
    for number, counts in enumerate(steps):
        names = [f"{number}-{i}" for i in range(len(counts))]
        new = [s for name, count in zip(names, counts, strict=True) for s in many(name, count)]
        labels += names
        training, held_out = hold_out(new, config, len(labels), random)
        if memory is not None:
            training, held_out = training + memory.training(), held_out + memory.held_out()
        trained |= {s.source for s in training}
        kept_out |= {s.source for s in held_out}
        distances = random.random(len(training)).tolist()
        memory = select(config, labels, training, distances, held_out=held_out, generator=random)
        assert len(memory) <= size
        assert max(len(memory.samples(label)) for label in labels) <= size // len(labels)
        assert set(memory.labels) == set(labels)
    assert not trained & kept_out
