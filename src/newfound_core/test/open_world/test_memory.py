# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest
from newfound_core.errors import ConfigError, DataError
from newfound_core.open_world.memory import Memory, MemoryConfig, Sample

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
