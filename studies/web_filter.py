# SPDX-License-Identifier: Apache-2.0
"""What filtering does to a noisy set of images: how many wrong ones go, how many right ones stay.

    python -m studies.web_filter --data FOLDER [--crops FOLDER] [--limits 0.6 0.8 1.0]

FOLDER holds `<class>/*.jpg`. A trial draws images of one class, replaces a share of them by
images of other classes, as a web search would, and filters them with the features that the
node uses. Crops are drawn from the classes of another folder: another camera, another light.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from newfound_web.pictures import PictureLimits, open_picture
from newfound_web.selection import SAME_WITHIN, difference_hash, inliers
from newfound_web.vision import Vision

Classes = dict[str, np.ndarray]  # features by class


def load(folder: Path, count: int, vision: Vision) -> tuple[Classes, list[int]]:
    """Features of so many images of each class, and the hashes of all."""
    classes, hashes = {}, []
    for place in sorted(p for p in folder.iterdir() if p.is_dir()):
        vectors = []
        for file in sorted(place.iterdir())[:count]:
            rgb = open_picture(file.read_bytes(), PictureLimits()).rgb
            vectors.append(vision.features(rgb))
            hashes.append(difference_hash(rgb))
        classes[place.name] = np.stack(vectors)
    return classes, hashes


def noisy_sets(
    classes: Classes, size: int, noise: float, trials: int, same: bool
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Label, features and truth of noisy sets; with `same`, all wrong images are of one class."""
    random = np.random.default_rng(0)
    wrong = round(size * noise)
    for name, vectors in classes.items():
        for _ in range(trials):
            right = vectors[random.choice(len(vectors), size - wrong, replace=False)]
            others = [other for other in classes if other != name]
            if same:
                others = [others[random.integers(len(others))]]
            others_images = np.concatenate([classes[other] for other in others])
            others_images = others_images[random.choice(len(others_images), wrong, replace=False)]
            truth = np.arange(size) < size - wrong
            yield name, np.concatenate([right, others_images]), truth


def measure(
    classes: Classes, crops: Classes | None, limit: float, options: argparse.Namespace
) -> tuple[float, float]:
    """Share of wrong images among those kept, and share of right images kept, in percent."""
    random = np.random.default_rng(1)
    wrong, kept_right = [], []
    for name, features, truth in noisy_sets(
        classes, options.size, options.noise, options.trials, options.same
    ):
        crop = crops[name][random.integers(len(crops[name]))] if crops else None
        keep = inliers(features, crop, limit)
        wrong.append((keep & ~truth).sum() / max(keep.sum(), 1))
        kept_right.append((keep & truth).sum() / truth.sum())
    return 100 * float(np.mean(wrong)), 100 * float(np.mean(kept_right))


def duplicates(hashes: list[int]) -> tuple[int, int]:
    """How many pairs of images pass for duplicates, of how many."""
    pairs = [(a, b) for i, a in enumerate(hashes) for b in hashes[i + 1 :]]
    return sum((a ^ b).bit_count() <= SAME_WITHIN for a, b in pairs), len(pairs)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--crops", type=Path, help="classes of the same names, for the crops")
    parser.add_argument("--per-class", type=int, default=60, help="images read of each class")
    parser.add_argument("--size", type=int, default=30, help="images of a noisy set")
    parser.add_argument("--noise", type=float, default=0.3, help="share of wrong images")
    parser.add_argument("--same", action="store_true", help="wrong images are of one class")
    parser.add_argument("--trials", type=int, default=40, help="noisy sets of each class")
    parser.add_argument("--limits", type=float, nargs="+", default=[0.8])
    options = parser.parse_args()
    vision = Vision()
    classes, hashes = load(options.data, options.per_class, vision)
    crops = load(options.crops, options.per_class, vision)[0] if options.crops else None
    print(f"{options.data.name}, {100 * options.noise:.0f} % wrong of {options.size}")
    for limit in options.limits:
        for judge, given in (("each other", None), ("each other and the crop", crops)):
            if judge == "each other" or crops:
                wrong, right = measure(classes, given, limit, options)
                print(f"limit {limit:3.1f}, {judge:24} {wrong:5.1f} % wrong, {right:5.1f} % kept")
    alike, pairs = duplicates(hashes)
    print(f"{alike} of {pairs} pairs pass for duplicates")


if __name__ == "__main__":
    main()
