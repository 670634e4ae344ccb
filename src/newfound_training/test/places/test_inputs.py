# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch

from newfound_core.preprocessing import default_preprocessing
from newfound_training.places.inputs import ImageInputs


def test_plain_images_are_preprocessed_and_variants_follow_their_generator(images, tiny):
    preprocessing = default_preprocessing(tiny.backbone, 16)
    inputs = ImageInputs(images.pixels, preprocessing, tiny)
    assert torch.equal(inputs.plain([7])[0], preprocessing(images.pixels[7]))
    one, other = (inputs.varied(7, np.random.default_rng(s)) for s in (1, 2))
    assert torch.equal(one, inputs.varied(7, np.random.default_rng(1)))
    assert not torch.equal(one, other)
