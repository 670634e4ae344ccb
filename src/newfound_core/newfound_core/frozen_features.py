# SPDX-License-Identifier: Apache-2.0
"""Features of the frozen stages of a network, computed once and cached on disk.

Training the last stages only repeats the work of the frozen ones in every epoch, step and run. So
their output is cached for the plain image and for a few random variants of it, in half precision,
whose rounding is far below what a random variant changes. One memory-mapped file per group of
images appears complete or not at all: an interrupted run goes on with the first that is missing.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from newfound_core.augmentation import Augmentation
from newfound_core.backbones import Backbone
from newfound_core.errors import ConfigError
from newfound_core.open_world.inputs import Inputs
from newfound_core.preprocessing import Preprocessing
from newfound_core.storage import atomic_file

FORMAT = 1
PLAIN, JITTERED = 0, 1  # positions among the variants of an image; random crops follow
COLOUR_ONLY = Augmentation((1.0, 1.0), (1.0, 1.0), 0.0)
CROP = Augmentation()
# As another camera in another light would see it: for what a head learns of things in general.
OTHER_CAMERA = Augmentation(brightness=0.4, contrast=0.3, saturation=0.4, smallest_side=24)
_BATCH = 50


@dataclass(frozen=True)
class FrozenStages:
    """The frozen part of a network and how images enter it."""

    network: nn.Module
    preprocessing: Preprocessing
    device: torch.device
    augmentation: Augmentation | None = None  # of all variants; None: JITTERED, then random crops

    def digest(self) -> str:
        """Return a key that changes with the weights and with the way images enter."""
        digest = hashlib.sha256(repr(self.preprocessing).encode())
        if self.augmentation is not None:
            digest.update(repr(self.augmentation).encode())
        for name, tensor in self.network.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @torch.no_grad()
    def features(
        self, images: Sequence[np.ndarray], crops: int | None, first: int = 0
    ) -> np.ndarray:
        """Compute features of images and their variants, float16 [N, variants, ...].

        `crops` None keeps the plain image only, as for testing. `first` is the number of the
        first image in its group, from which its random variants follow.
        """
        self.network.eval()
        inputs = [
            x
            for number, image in enumerate(images, first)
            for x in self._variants(image, number, crops)
        ]
        outputs = [self.network(self._batch(part)).half().cpu() for part in _parts(inputs, _BATCH)]
        features = torch.cat(outputs).numpy()
        return features.reshape(len(images), -1, *features.shape[1:])

    def _batch(self, inputs: list[Tensor]) -> Tensor:
        images = torch.stack(inputs)
        return images.to(self.device, memory_format=torch.channels_last)

    def _variants(self, image: np.ndarray, number: int, crops: int | None) -> Iterator[Tensor]:
        yield self.preprocessing(image)
        if crops is None:
            return
        if self.augmentation is not None:
            for variant in range(1, crops + 1):
                generator = np.random.default_rng([6, variant, number])
                yield self.augmentation(image, self.preprocessing, generator)
            return
        generator = np.random.default_rng([number, 9])
        yield COLOUR_ONLY(image, self.preprocessing, generator)
        for _ in range(crops):
            yield CROP(image, self.preprocessing, generator)


def cached_features(
    frozen: FrozenStages,
    groups: Mapping[str, tuple[Sequence[str], Sequence[np.ndarray]]],
    crops: int | None,
    folder: Path,
    *,
    quiet: bool = False,
) -> dict[str, np.ndarray]:
    """Features of each group of images, given as fingerprints and pixels, from or to `folder`.

    On a terminal a bar shows the progress, unless `quiet`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    digest = frozen.digest()
    found = {}
    total = sum(len(images) for _, images in groups.values())
    with tqdm(total=total, disable=quiet or None) as bar:
        bar.set_description("frozen stages")
        for name, (fingerprints, images) in groups.items():
            key = "\n".join([f"{FORMAT} {crops} {digest}", *fingerprints]).encode()
            path = folder / f"{hashlib.sha256(key).hexdigest()[:32]}.npy"
            if not path.is_file():
                _write(path, frozen, images, crops, bar.update)
            found[name] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


def frozen_parts(backbone: Backbone, count: int) -> list[nn.Module]:
    """Return the stem and the stages that are not trained, `count` of them together."""
    parts = [backbone.stem, *backbone.stages]
    if count > len(parts):
        raise ConfigError(
            f"{backbone.name or 'the network'} has a stem and {len(parts) - 1} stages here, so at "
            f"most {len(parts)} of them can be frozen, not {count}"
        )
    return parts[:count]


def split_frozen(backbone: Backbone, frozen_stages: int) -> tuple[nn.Sequential, nn.Sequential]:
    """Split a backbone into its frozen stages and the part that trains; modules are shared."""
    frozen = frozen_parts(backbone, frozen_stages)
    rest = [backbone.stem, *backbone.stages][frozen_stages:]
    return nn.Sequential(*frozen), nn.Sequential(*rest, backbone.head)


def cached_inputs() -> Inputs:
    """Network inputs from cached features: one of the variants computed beforehand is drawn."""

    def one(features: np.ndarray, position: int) -> Tensor:
        position = min(position, len(features) - 1)  # some have no variants
        return torch.from_numpy(features[position].astype(np.float32))

    def vary(features: np.ndarray, generator: np.random.Generator) -> Tensor:
        return one(features, int(generator.integers(len(features))))

    return Inputs(
        lambda features: one(features, PLAIN),
        vary,
        lambda features, generator: one(features, JITTERED),
    )


def _write(
    path: Path,
    frozen: FrozenStages,
    images: Sequence[np.ndarray],
    crops: int | None,
    on_done: Callable[[int], object],
) -> None:
    """Stream features into a .npy file that appears complete.

    Written as bytes: np.save and memory maps do not report that the disk is full.
    """
    with atomic_file(path) as file:
        for start in range(0, len(images), _BATCH):
            chunk = [images[i] for i in range(start, min(start + _BATCH, len(images)))]
            features = frozen.features(chunk, crops, start)
            if not start:
                shape = (len(images), *features.shape[1:])
                header = {"descr": "<f2", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(features.tobytes())
            on_done(len(chunk))


def _parts(items: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
