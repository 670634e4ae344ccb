# SPDX-License-Identifier: Apache-2.0
"""A stream that alternates between two sites: ONDA, latent domains, and both.

    python -m studies.alternating_sites --checkpoint runs/latent/seed0/source/checkpoint \
        --data data/bench_stream --pairs cloudy_kinect_white:directed_kinect_white --out DIR

Half of the images of two domains are unlabelled footage (clusters, nothing trained); the others
are streamed twice, 30 frames of one domain, then 30 of the other.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.classifier import Classifier
from newfound_core.latent import clustered
from newfound_core.models import load_model
from newfound_core.onda import OndaConfig
from newfound_core.stem_clusters import cluster_images
from newfound_core.storage import write_json
from newfound_training.data import load_pixels, open_images
from newfound_training.online.replay import replay

BLOCK = 30  # frames of one site


def predicted(model: nn.Module, frames: Tensor) -> np.ndarray:
    """The most probable class of each frame, without adapting."""
    with torch.no_grad():
        outputs = [model(part) for part in frames.split(50)]
    classes = [getattr(output, "logits", output).argmax(1) for output in outputs]
    return torch.cat(classes).numpy()


def measure(checkpoint: Path, data: Path, pair: tuple[str, str], seed: int) -> dict:
    """Accuracy of each method over all frames, and in the first ten and the rest of a block."""
    loaded = load_model(checkpoint, "source")
    assert isinstance(loaded.model, Classifier)
    how = loaded.metadata.preprocessing
    pixels = load_pixels(open_images(data), how.size, resize=how.resize)
    generator = np.random.default_rng(seed)
    sites = [generator.permutation(np.flatnonzero(pixels.images.domains ==
             pixels.images.domain_index(name))) for name in pair]  # fmt: skip
    half = min(map(len, sites)) // 2 // BLOCK * BLOCK

    def prepared(indices: np.ndarray) -> Tensor:
        return loaded.prepare([pixels[int(i)] for i in indices])

    footage = np.concatenate([site[:half] for site in sites])
    blocks = [np.tile(site[-half:], 2).reshape(-1, BLOCK) for site in sites]
    order = np.stack(blocks, 1).reshape(-1)
    clusters = cluster_images(loaded.model.backbone, [prepared(footage)], 2, seed)
    latent = clustered(loaded.model, clusters, lambda indices: prepared(footage[indices]))
    stream = prepared(order)
    frames = lambda indices: stream[torch.from_numpy(indices)]  # noqa: E731
    everything = np.arange(len(order))
    found = {
        "source": predicted(loaded.model, stream),
        "onda": replay(loaded.model, frames, everything, OndaConfig()),
        "clusters": predicted(latent, stream),
        "clusters_onda": replay(latent, frames, everything, OndaConfig()),
    }
    right = {name: classes == pixels.images.labels[order] for name, classes in found.items()}
    later = {name: hits.reshape(-1, BLOCK)[1:] for name, hits in right.items()}
    return {
        name: {
            "all": float(right[name].mean()),
            "first_10": float(later[name][:, :10].mean()),
            "rest": float(later[name][:, 10:].mean()),
        }
        for name in found
    }


def main(arguments: list[str]) -> int:
    """Measure every pair and write `alternating.json`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pairs", nargs="+", required=True, help="as one:other")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    result = {}
    for pair in options.pairs:
        first, _, second = pair.partition(":")
        result[pair] = measure(options.checkpoint, options.data, (first, second), options.seed)
        for name, values in result[pair].items():
            print(pair, name, {k: round(100 * v, 1) for k, v in values.items()}, flush=True)
    write_json(options.out / "alternating.json", result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
