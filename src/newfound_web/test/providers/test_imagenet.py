# SPDX-License-Identifier: Apache-2.0
import asyncio

from newfound_web.providers.contract import Candidate
from newfound_web.providers.imagenet import ImageNet


def test_the_most_probable_names_are_proposed(picture_of):
    def namer(rgb, count):
        assert rgb.shape == (80, 96, 3)
        return [("teapot", 0.7), ("vase", 0.2), ("mug", 0.1)][:count]

    found = asyncio.run(ImageNet(namer).candidates(picture_of(1), 2))
    assert found == [Candidate("teapot", 0.7, "imagenet"), Candidate("vase", 0.2, "imagenet")]
