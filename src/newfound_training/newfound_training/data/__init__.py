# SPDX-License-Identifier: Apache-2.0
"""Images on disk: listed in a fixed order, checked, and decoded once into a cache.

images = open_images("data/pacs")                  # what is there, nothing decoded
pixels = load_pixels(images, size=128)             # uint8, memory-mapped
"""

from newfound_training.data.images import ImageSet
from newfound_training.data.layouts import open_images
from newfound_training.data.pixels import Pixels, load_pixels

__all__ = ["ImageSet", "Pixels", "load_pixels", "open_images"]
