# SPDX-License-Identifier: Apache-2.0
"""What a frozen trunk makes of each image, computed once and kept on disk.

Training the last stages only repeats the trunk's work in every epoch, step and run. So its
output, a small map, is kept for the plain image and for a few random variants of it, in
half precision, one memory-mapped file per class in `$NEWFOUND_CACHE/maps`. A file appears
complete or not at all: an interrupted run goes on with the first class that has none.
"""

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from newfound_core.augmentation import Augmentation
from newfound_core.preprocessing import Preprocessing
from newfound_core.storage import write_bytes
from newfound_training.data.pixels import cache_root

FORMAT = 1
PLAIN, JITTERED = 0, 1  # positions among the variants of an image; random crops follow
COLOUR_ONLY = Augmentation((1.0, 1.0), (1.0, 1.0), 0.0)
CROP = Augmentation()
_BATCH = 50


@dataclass(frozen=True)
class Trunk:
    """The frozen part of a network and how images enter it."""

    network: nn.Module
    preprocessing: Preprocessing
    device: torch.device

    def digest(self) -> str:
        """Changes when the weights, or the way images enter, do."""
        digest = hashlib.sha256(repr(self.preprocessing).encode())
        for name, tensor in self.network.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @torch.no_grad()
    def maps(self, images: Sequence[np.ndarray], crops: int | None) -> np.ndarray:
        """Maps of images and their variants, float16 [N, variants, C, H, W].

        `crops` None keeps the plain image only, as for testing.
        """
        self.network.eval()
        inputs = [
            x for number, image in enumerate(images) for x in self._variants(image, number, crops)
        ]
        outputs = [
            self.network(torch.stack(part).to(self.device)).half().cpu()
            for part in _parts(inputs, _BATCH)
        ]
        maps = torch.cat(outputs).numpy()
        return maps.reshape(len(images), -1, *maps.shape[1:])

    def _variants(self, image: np.ndarray, number: int, crops: int | None) -> Iterator[Tensor]:
        yield self.preprocessing(image)
        if crops is None:
            return
        generator = np.random.default_rng([number, 9])
        yield COLOUR_ONLY(image, self.preprocessing, generator)
        for _ in range(crops):
            yield CROP(image, self.preprocessing, generator)


def cached_maps(
    trunk: Trunk,
    groups: Mapping[str, tuple[Sequence[str], Sequence[np.ndarray]]],
    crops: int | None,
    cache: Path | None = None,
) -> dict[str, np.ndarray]:
    """Maps of each group of images, given as fingerprints and pixels; computed where missing."""
    folder = cache or cache_root().parent / "maps"
    folder.mkdir(parents=True, exist_ok=True)
    digest = trunk.digest()
    found = {}
    for name, (fingerprints, images) in tqdm(
        groups.items(), "frozen stages", disable=None if len(groups) > 1 else True
    ):
        key = "\n".join([f"{FORMAT} {crops} {digest}", *fingerprints]).encode()
        path = folder / f"{hashlib.sha256(key).hexdigest()[:32]}.npy"
        if not path.is_file():
            _write(path, trunk.maps(images, crops))
        found[name] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


def _write(path: Path, maps: np.ndarray) -> None:
    buffer = io.BytesIO()  # np.save into a file forgets to say that the disk is full
    np.save(buffer, maps, allow_pickle=False)
    write_bytes(path, buffer.getvalue())


def _parts(items: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
