# SPDX-License-Identifier: Apache-2.0
"""Samples of a data set, kept in the folder of a run: a resumed run computes none again."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from newfound_core.preprocessing import Preprocessing
from newfound_core.segmentation.metrics import Confusion
from newfound_core.segmentation.network import SegmentationNetwork
from newfound_core.segmentation.samples import LabelledImage, Samples, compute_samples
from newfound_core.segmentation.segmenter import decide
from newfound_core.storage import atomic_file
from newfound_training.running.command import Run
from newfound_training.segmentation.data import LabelledFile, LabelledSet


class LazyImages(Sequence[LabelledImage]):
    """Images that are decoded when they are asked for."""

    def __init__(self, data: LabelledSet, files: Sequence[LabelledFile]) -> None:
        self._data, self._files = data, files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: Any) -> Any:
        """One image; slices are not needed."""
        return self._data.read(self._files[index])


def stored_samples(
    network: SegmentationNetwork,
    data: LabelledSet,
    files: Sequence[LabelledFile],
    preprocessing: Preprocessing,
    *,
    frozen: int,
    variants: int,
    run: Run,
    name: str,
) -> Samples:
    """Samples of files, from the run's folder or computed and put there."""
    key = _digest(network, frozen, preprocessing, variants)
    folder = run.out / "samples"
    paths = [folder / f"{name}_{key}_{part}.npy" for part in ("labels", "0", "1")]
    if not paths[0].is_file():
        with tqdm(total=len(files), desc=f"{name} pictures", disable=None) as bar:
            samples = compute_samples(
                network,
                LazyImages(data, files),
                preprocessing,
                frozen=frozen,
                variants=variants,
                on_done=lambda done: bar.update(done - bar.n),
            )
        for path, array in zip(paths[1:], samples.maps, strict=False):
            _write(path, array)
        _write(paths[0], samples.labels)  # last: it says that the others are there
    maps = tuple(np.load(p, mmap_mode="r") for p in paths[1:] if p.is_file())
    return Samples(maps, np.load(paths[0]), frozen)


def _write(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def _digest(
    network: SegmentationNetwork, frozen: int, preprocessing: Preprocessing, variants: int
) -> str:
    digest = hashlib.sha256(f"{frozen} {preprocessing} {variants}".encode())
    parts = [network.backbone.stem, *network.backbone.stages][:frozen]
    for part in parts:
        for tensor in part.state_dict().values():
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


@torch.no_grad()
def measure(
    network: SegmentationNetwork, samples: Samples, truths: Sequence[np.ndarray], table: np.ndarray
) -> tuple[Confusion, float]:
    """Pixels by class, at the size of the label images, and the mean confidence."""
    device = next(network.parameters()).device
    confusion, confidence = Confusion(network.classes), []
    network.eval()
    for number, truth in enumerate(truths):
        maps = samples.batch(np.array([number]), np.array([0]), device)
        pixels = network.finish(maps, samples.frozen)[0].cpu()
        found = decide(pixels, (truth.shape[1], truth.shape[0]))
        confusion.add(table[truth], found.mask)
        confidence.append(float(pixels.softmax(0).amax(0).mean()))
    return confusion, float(np.mean(confidence))
