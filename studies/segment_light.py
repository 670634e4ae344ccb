# SPDX-License-Identifier: Apache-2.0
"""Does ONDA help a segmenter in a light that it was not trained in?

    python -m studies.segment_light --data data/rooms/val

`data/rooms` is made as in docs/segmentation.md; `val` is a building that models/rooms_segments was
not trained in. The other light is a dim and warm lamp: each channel of a picture is multiplied by
one of `--gains`. The pictures are shown several times over in a random order; each is labelled
before ONDA learns from it. Prints the mean IoU of every pass.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from newfound_core.inference import InferenceConfig
from newfound_core.onda.adapter import Onda
from newfound_core.onda.config import OndaConfig
from newfound_core.segmentation.metrics import Confusion
from newfound_core.segmentation.samples import LabelledImage
from newfound_core.segmentation.segmenter import Segmenter
from studies.learn_segment import ROOT, Pictures

WAYS = {
    "ONDA": OndaConfig(),  # in the layers that the checkpoint says: those that were trained
    "ONDA in all layers": OndaConfig(layers="all"),
    "ONDA as in the thesis": OndaConfig.thesis(),
}


def passes(
    segmenter: Segmenter, pictures: Sequence[LabelledImage], count: int, onda: Onda | None = None
) -> list[float]:
    """The mean IoU without the background of each pass over the pictures."""
    generator, found = np.random.default_rng(0), []
    for _ in range(count):
        confusion = Confusion(len(segmenter.labels))
        for number in generator.permutation(len(pictures)):
            picture = pictures[number]
            confusion.add(picture.labels, segmenter.segment(picture.rgb).mask)
            if onda is not None and (update := onda.pending_update()) is not None:
                onda.apply(update.estimate())
        found.append(confusion.mean_iou(range(1, len(segmenter.labels))))
    return found


def lit(picture: LabelledImage, gains: Sequence[float]) -> LabelledImage:
    """The picture in another light."""
    rgb = (picture.rgb * np.array(gains)).round().clip(0, 255).astype(np.uint8)
    return LabelledImage(rgb, picture.labels, picture.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models/rooms_segments")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--gains", type=float, nargs=3, default=[0.6, 0.45, 0.3])
    parser.add_argument("--passes", type=int, default=2)
    options = parser.parse_args()
    frozen, data = Segmenter.load(options.checkpoint), Pictures(options.data)
    pictures = [data.read(path, frozen.labels) for path in data.paths]
    changed = [lit(picture, options.gains) for picture in pictures]
    show("as rendered", passes(frozen, pictures, 1))
    show("the other light", passes(frozen, changed, 1))
    for name, config in WAYS.items():
        for light, shown in (("the other light", changed), ("as rendered", pictures)):
            segmenter = Segmenter.load(options.checkpoint, InferenceConfig(adapt=True))
            onda = segmenter.inference.build_onda(config)
            segmenter.inference.serve(onda)
            found = passes(segmenter, shown, options.passes, onda)
            show(f"{light}, {name}, {onda.status().updates} updates", found)


def show(name: str, found: Sequence[float]) -> None:
    print(f"{name}: {' '.join(f'{100 * value:.1f}' for value in found)}", flush=True)


if __name__ == "__main__":
    main()
